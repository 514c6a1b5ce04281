// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "renaissance/algo/scheduler.h"

namespace tr {

/// What a watch of a metric remembers from epoch to epoch.
struct WatchState {
  double best = std::numeric_limits<double>::quiet_NaN();  // NaN: no value yet
  int waited = 0;                                          // epochs since the best one
};

/// Takes a value in; true if it is the new best one: the first, or better than `best` by more than
/// `margin` (a distance of at least 0). NaN is never better.
bool watch(WatchState& state, double value, bool rises, double margin);

/// The state of a ReduceLROnPlateau.
struct PlateauState {
  WatchState seen;
  int cooldown = 0;   // epochs left of it
  double factor = 1;  // of base_lr
};

/// One epoch's value of the metric. As torch.optim.lr_scheduler.ReduceLROnPlateau.step: a fall of
/// the rate by less than 1e-8 is left out.
void plateau_step(const Scheduler& scheduler, bool rises, double value, PlateauState& state);

}  // namespace tr
