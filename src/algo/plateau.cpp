// SPDX-License-Identifier: Apache-2.0
#include "algo/plateau.h"

#include <algorithm>
#include <cmath>

namespace tr {

bool watch(WatchState& state, double value, bool rises, double margin) {
  const bool better = rises ? value > state.best + margin : value < state.best - margin;
  if (better || (std::isnan(state.best) && !std::isnan(value))) {
    state.best = value;
    state.waited = 0;
    return true;
  }
  ++state.waited;
  return false;
}

void plateau_step(const Scheduler& scheduler, bool rises, double value, PlateauState& state) {
  const Plateau& p = scheduler.plateau;
  // PyTorch's relative bound is best * (1 - threshold) or best * (1 + threshold), signs included.
  const double sign = rises ? 1 : -1;
  const double margin = p.relative ? state.seen.best * p.threshold : p.threshold;
  const double bound = state.seen.best + sign * margin;
  const bool better = rises ? value > bound : value < bound;
  if (better || (std::isnan(state.seen.best) && !std::isnan(value))) {
    state.seen = {value, 0};
  } else {
    ++state.seen.waited;
  }
  if (state.cooldown > 0) {
    --state.cooldown;
    state.seen.waited = 0;
  }
  if (state.seen.waited <= p.patience) return;
  constexpr double kLeastFall = 1e-8;
  const double now = scheduler.base_lr * state.factor;
  const double next = std::max(now * p.factor, p.min_lr);
  if (now - next > kLeastFall) state.factor = next / scheduler.base_lr;
  state.cooldown = p.cooldown;
  state.seen.waited = 0;
}

}  // namespace tr
