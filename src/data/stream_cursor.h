// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/loader.h"
#include "data/sampler.h"

namespace tr::data {

using PhaseFunction = std::function<std::optional<StreamPhase>(std::int64_t)>;

/// Samplers of the two splits; null where there is no set.
struct SplitSamplers {
  const Sampler* train = nullptr;
  const Sampler* val = nullptr;
  const Sampler* of(Split split) const { return split == Split::TRAIN ? train : val; }
};

/// A place in the stream of micro-batches: phase, step, micro-batch. Every worker and the consumer
/// walk the same stream with a cursor of their own, so nothing has to be handed out.
class StreamCursor {
 public:
  /// @throws InvalidArgument  the start lies behind the phase's end, or a phase has no set.
  StreamCursor(const PhaseFunction& phases, SplitSamplers samplers, std::int64_t start_phase,
               std::int64_t start_step);

  bool at_end() const { return !phase_; }
  void advance();

  const StreamPhase& phase() const { return *phase_; }
  const Sampler& sampler() const { return *sampler_; }
  /// Order of the samples in this phase.
  const Permutation& order() const { return order_; }
  std::int64_t phase_index() const { return phase_index_; }
  std::int64_t step() const { return step_; }
  int micro() const { return micro_; }
  Share share() const { return sampler_->share(step_, micro_); }
  bool last_in_phase() const {
    return step_ + 1 == sampler_->num_steps() && micro_ + 1 == sampler_->num_micro();
  }

 private:
  void enter_phase(std::int64_t index);

  const PhaseFunction* phases_;
  SplitSamplers samplers_;
  std::optional<StreamPhase> phase_;
  const Sampler* sampler_ = nullptr;
  Permutation order_;
  std::int64_t phase_index_ = 0, step_ = 0;
  int micro_ = 0;
};

}  // namespace tr::data
