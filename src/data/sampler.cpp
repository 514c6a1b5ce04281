// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.h"

#include <algorithm>

#include "core/check.h"

namespace tr::data {

Sampler::Sampler(const SamplerConfig& config) : config_(config) {
  const SamplerConfig& c = config_;
  TR_CHECK(c.num_samples >= 1, "sampler: the set has {} samples, at least 1 is needed",
           c.num_samples);
  TR_CHECK(c.batch_size >= 1, "sampler: batch_size is {}, must be at least 1", c.batch_size);
  TR_CHECK(c.world_size >= 1 && c.rank >= 0 && c.rank < c.world_size,
           "sampler: rank {} is not in 0..{} (world_size {})", c.rank, c.world_size - 1,
           c.world_size);
  const std::int64_t per_micro = c.batch_size * c.world_size;
  TR_CHECK(c.global_batch >= 1 && c.global_batch % per_micro == 0,
           "sampler: global_batch is {}, expected a multiple of batch_size {} x world_size {}",
           c.global_batch, c.batch_size, c.world_size);
  num_micro_ = int(c.global_batch / per_micro);
  const std::int64_t ragged = c.num_samples % c.global_batch != 0 && !c.drop_last ? 1 : 0;
  num_steps_ = c.num_samples / c.global_batch + ragged;
  TR_CHECK(num_steps_ >= 1,
           "sampler: drop_last leaves no batch: global_batch is {}, the set has {} samples",
           c.global_batch, c.num_samples);
}

std::int64_t Sampler::step_size(std::int64_t step) const {
  return std::min(config_.global_batch, config_.num_samples - step * config_.global_batch);
}

Share Sampler::share(std::int64_t step, int micro) const {
  const std::int64_t offset =
      (std::int64_t(micro) * config_.world_size + config_.rank) * config_.batch_size;
  const std::int64_t left = step_size(step) - offset;
  return {offset, std::clamp<std::int64_t>(left, 0, config_.batch_size)};
}

Permutation Sampler::order(std::int64_t epoch) const {
  return make_permutation(std::uint64_t(config_.num_samples), config_.seed, std::uint64_t(epoch),
                          config_.split);
}

}  // namespace tr::data
