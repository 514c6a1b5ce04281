// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/permutation.h"

namespace tr::data {

struct SamplerConfig {
  std::int64_t num_samples = 0;
  std::int64_t batch_size = 1;    // of one rank's micro-batch
  std::int64_t global_batch = 1;  // samples of a step: batch_size * world_size * micro-batches
  int rank = 0, world_size = 1;
  bool shuffle = false;
  bool drop_last = false;
  std::uint64_t seed = 0;
  std::uint64_t split = 0;  // 0: training, 1: validation
};

/// The part of a step that one micro-batch of this rank takes.
struct Share {
  std::int64_t offset = 0;  // of its first sample within the step
  std::int64_t size = 0;    // 0 .. batch_size
};

/// Which sample stands where, as pure functions of (epoch, step, micro-batch): there is no state to
/// save. Step s takes the places [s G, min((s + 1) G, n)) of the epoch's order, G = global_batch;
/// micro-batch m of rank r takes those from (m * world_size + r) * batch_size on. A ragged tail
/// leaves the last ones short or empty; every sample occurs once, on one rank.
class Sampler {
 public:
  /// @throws InvalidArgument  no samples, a batch below 1, a global batch that is no multiple of
  /// batch_size *
  ///         world_size, a rank out of range, or drop_last that would leave no step.
  explicit Sampler(const SamplerConfig& config);

  std::int64_t num_steps() const { return num_steps_; }
  int num_micro() const { return num_micro_; }
  /// Samples of the whole step, over ranks and micro-batches.
  std::int64_t step_size(std::int64_t step) const;
  Share share(std::int64_t step, int micro) const;

  /// The epoch's order; Permutation costs O(1) to make and to ask.
  Permutation order(std::int64_t epoch) const;
  /// Sample at place `position` (0 .. num_samples - 1) of an epoch.
  std::int64_t sample_at(const Permutation& order, std::int64_t position) const {
    return config_.shuffle ? std::int64_t(order(std::uint64_t(position))) : position;
  }
  const SamplerConfig& config() const { return config_; }

 private:
  SamplerConfig config_;
  std::int64_t num_steps_ = 0;
  int num_micro_ = 1;
};

}  // namespace tr::data
