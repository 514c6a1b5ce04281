// SPDX-License-Identifier: Apache-2.0
#include "data/stream_cursor.h"

#include "core/check.h"

namespace tr::data {

StreamCursor::StreamCursor(const PhaseFunction& phases, SplitSamplers samplers,
                           std::int64_t start_phase, std::int64_t start_step)
    : phases_(&phases), samplers_(samplers) {
  TR_CHECK(start_phase >= 0 && start_step >= 0,
           "loader: the start is phase {}, step {}, neither may be negative", start_phase,
           start_step);
  enter_phase(start_phase);
  if (at_end()) return;
  TR_CHECK(start_step <= sampler_->num_steps(),
           "loader: the start is step {} of phase {}, which has {} steps", start_step, start_phase,
           sampler_->num_steps());
  step_ = start_step;
  if (step_ == sampler_->num_steps()) enter_phase(start_phase + 1);
}

void StreamCursor::enter_phase(std::int64_t index) {
  const std::optional<StreamPhase> phase = (*phases_)(index);
  if (phase) {
    const Sampler* sampler = samplers_.of(phase->split);
    TR_CHECK(sampler != nullptr, "loader: phase {} is a {} pass, but there is no set for it", index,
             phase->split == Split::TRAIN ? "training" : "validation");
    sampler_ = sampler;
    order_ = sampler->order(phase->epoch);
  }
  phase_ = phase;
  phase_index_ = index;
  step_ = 0;
  micro_ = 0;
}

void StreamCursor::advance() {
  if (++micro_ < sampler_->num_micro()) return;
  micro_ = 0;
  if (++step_ < sampler_->num_steps()) return;
  enter_phase(phase_index_ + 1);
}

}  // namespace tr::data
