// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "renaissance/data/dataset.h"
#include "task/compiled_run.h"

namespace tr {

/// Reads samples of a set as they are stored and says what is wrong with their values, before
/// transforms and conversions.
class SampleCheck {
 public:
  /// Of the run's set of this split, which must be there.
  SampleCheck(const CompiledRun& run, data::Split split);

  /// True if a field that is read may hold NaN or infinities.
  bool has_floating() const { return has_floating_; }
  /// The first value that is not finite of sample `id`: its field, place and value, and the layer
  /// that reads it; empty if there is none.
  /// @throws DataError  the sample cannot be read.
  std::string not_finite(std::int64_t id);
  /// @throws InvalidArgument  the sample's class number is outside 0 .. num_classes - 1 and
  /// not ignored by the loss.
  void check_label(std::int64_t id, std::int64_t num_classes);

 private:
  void read(std::int64_t id);

  const ArchPlan& arch_;
  const Dataset& set_;
  const char* split_;
  std::vector<Field> fields_;
  std::vector<bool> checked_;  // by field: floating, and read by a graph
  bool has_floating_ = false;
  int label_ = -1;  // the field of class numbers, if there is one
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<std::byte*> pointers_;
  std::int64_t last_read_ = -1;
  std::vector<std::int64_t> ignored_;  // labels that the loss does not count
};

/// Fields of the data that some graph of the run reads, with their largest batch in bytes; of one
/// mode, if that is given.
std::map<std::string, std::int64_t> input_fields(const CompileResult& compiled,
                                                 std::optional<Mode> mode = std::nullopt);

/// Samples in memory come from the user: each class number must be one of the model's outputs, and
/// no value that is read may be NaN or infinite. Sets that are read sample by sample are checked
/// for class numbers only where they do not say how many classes they have; a NaN of theirs is
/// found by the step that meets it.
/// @throws InvalidArgument  labels and outputs do not fit.
/// @throws DataError        a value is not finite.
void check_samples(const CompiledRun& run);

}  // namespace tr
