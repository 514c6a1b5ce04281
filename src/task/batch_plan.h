// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/compiler.h"
#include "task/config.h"

namespace tr {

/// global = local * world_size * accumulate_steps.
struct BatchPlan {
  std::int64_t local = 1;   // samples of one micro-batch of one rank
  std::int64_t global = 1;  // samples of one optimizer step
  int world_size = 1;
  int accumulate_steps = 1;
};

/// @throws InvalidArgument  the given sizes contradict each other or do not divide.
BatchPlan plan_batches(const GlobalSetting::Values& global, int world_size);

/// Refuses batches of which no layer can make a tensor, by the key that set them.
/// @throws InvalidArgument
void check_batches(const BatchPlan& batches, const GlobalSetting::Values& global,
                   const ArchPlan& arch);

/// The same global batch with every local batch cut into `parts` equal micro-batches.
BatchPlan cut(const BatchPlan& batches, int parts);
/// The numbers of parts that `cut` can make, rising.
std::vector<int> possible_cuts(const BatchPlan& batches);

/// What the data sets hold; a split of 0 samples is absent.
struct SplitSizes {
  std::int64_t train = 0, val = 0;
  bool drop_last = false;
};

/// Type of one sample of each field, as it is fed to the graphs of a mode.
struct ModeFields {
  using Fields = std::map<std::string, TensorType>;
  Fields train, eval, predict;

  const Fields& of(Mode mode) const {
    return mode == Mode::TRAIN ? train : mode == Mode::EVAL ? eval : predict;
  }
};

struct VariantOptions {
  bool ema = false;       // validation and prediction read averaged weights
  int freeze_states = 1;  // training has its variants once for each
};

/// Every variant that some step of some rank needs, and the look-up from a micro-batch to its
/// variant.
class VariantTable {
 public:
  /// @throws InvalidArgument  drop_last leaves no step.
  VariantTable(const BatchPlan& batches, const SplitSizes& sizes, const ModeFields& fields,
               const VariantOptions& options);

  const std::vector<VariantKey>& keys() const { return keys_; }
  /// Index of the variant for a micro-batch of `size` samples. A size of 0 gets the smallest one of
  /// its kind: it runs on zeros with a seed gradient of 0, and its results are not counted.
  int train(int micro, std::int64_t size, int freeze_state = 0) const;
  int eval(std::int64_t size) const;
  int predict() const { return predict_; }
  std::int64_t batch_of(int variant) const { return keys_[std::size_t(variant)].batch; }

 private:
  int add(Mode mode, std::int64_t batch, MicroStep micro, const ModeFields& fields, int state = 0);
  int find(Mode mode, std::int64_t batch, MicroStep micro, int state = 0) const;
  int smallest(Mode mode, MicroStep micro, int state = 0) const;
  MicroStep micro_step(int micro) const;

  BatchPlan batches_;
  bool ema_;
  std::vector<VariantKey> keys_;
  int predict_ = -1;
};

}  // namespace tr
