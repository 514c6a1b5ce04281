// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "renaissance/algo/scheduler.h"

namespace tr {

/// Learning rate of optimizer step `step` (from 0, over the whole run). By epoch the unit is an
/// epoch, by batch a step; u is the position in units, W the warm-up (cut to the run), D the units
/// after it, d = u - W:
///
///   warm-up       start + (base - start) (u + 1) / W
///   COSINE        eta_min + (base - eta_min) (1 + cos(pi d / D')) / 2
///                 with D' = max(1, D - 1) by epoch, max(1, D) by batch
///   CONSTANT      base
///   STEP          base gamma^floor(d / step_size), step_size in units
///   MULTI_STEP    base gamma^(number of milestones <= epoch)
///   EXPONENTIAL   base gamma^(whole epochs in d)
///   POLYNOMIAL    end_lr + (base - end_lr) (1 - d / (D + 1))^power
///   WSD           base before S = floor(D decay_start), then
///                 base + (end_lr - base) (d - S) / (D - S)
///   COSINE_WARM_RESTARTS
///                 the cosine over d within the cycle, D' its length, which grows by t_mult
///   LINEAR        base (start + (end - start) min(d, T) / T), T = total_iters epochs
///   ONE_CYCLE     first = base / div, last = first / final_div; up to base at E = pct_start D - 1,
///                 then down to last at D - 1; three_phase: down to first at 2 E, then to last
///   PLATEAU       base; what the metric makes of it is the run's state (PlateauState)
///   LAMBDA        base factor(d)
///
/// Pure. @throws InvalidArgument  steps_per_epoch or total_epochs < 1, or step outside the run.
double lr_at(const Scheduler& scheduler, std::int64_t step, std::int64_t steps_per_epoch,
             int total_epochs);

/// Momentum, or beta1, of the same step where the schedule moves it: of ONE_CYCLE with
/// cycle_momentum, between max_momentum and base_momentum as the rate goes between first and base;
/// max_momentum in warm-up and, with three_phase, in the last phase.
std::optional<double> momentum_at(const Scheduler& scheduler, std::int64_t step,
                                  std::int64_t steps_per_epoch, int total_epochs);

/// Refuses a run of rates that fp32 does not hold; a LAMBDA is asked for every factor of the run.
/// @throws InvalidArgument  a rate is not finite, or a factor negative.
void check_rates(const Scheduler& scheduler, std::int64_t steps_per_epoch, int total_epochs);

/// What the user should know: the warm-up was cut to the run's length. Empty: nothing.
std::string schedule_notice(const Scheduler& scheduler, int total_epochs);

}  // namespace tr
