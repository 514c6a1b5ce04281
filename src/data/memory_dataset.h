// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "renaissance/data/dataset.h"

namespace tr::data {

/// Samples in tensors [n, ...]; the set that every reader of whole files ends in.
class MemoryDataset final : public Dataset {
 public:
  /// @throws InvalidArgument  see make_tensor_dataset().
  MemoryDataset(std::string name, std::vector<NamedTensor> tensors, int num_classes);

  std::int64_t num_samples() const override { return num_samples_; }
  std::vector<Field> fields() const override { return fields_; }
  void read(std::int64_t id, std::span<std::byte* const> out) const override;
  void prefetch(std::int64_t id) const override;
  int num_classes() const override { return num_classes_; }
  std::string name() const override { return name_; }
  std::int64_t known_label(std::int64_t id) const override;

 private:
  std::string name_;
  std::vector<NamedTensor> tensors_;
  std::vector<Field> fields_;
  std::vector<std::size_t> sample_bytes_;
  std::int64_t num_samples_ = 0;
  int num_classes_ = 0;
  int label_ = -1;  // the field of class numbers, if there is one
};

/// True for a MemoryDataset, whose samples can always be read.
bool is_in_memory(const Dataset& dataset);

/// A copy of any set in memory (FULLY), picture files as the files they are. The set itself if it
/// is there already.
/// @throws DataError  of the first sample that cannot be read; a picture file fails when it is
/// used.
/// @throws OutOfMemory  the files take more than `most_bytes`.
std::shared_ptr<const Dataset> load_into_memory(
    std::shared_ptr<const Dataset> dataset,
    std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max());

/// One line a fault, for labels [n] INT32 outside 0 .. num_classes - 1, at most `limit` and a
/// closing line.
std::vector<std::string> label_faults(const std::string& who, const Tensor& labels, int num_classes,
                                      std::size_t limit = 20);

}  // namespace tr::data
