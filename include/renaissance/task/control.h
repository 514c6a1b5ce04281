// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/algo/loss.h"
#include "renaissance/algo/optimizer.h"
#include "renaissance/algo/scheduler.h"
#include "renaissance/core/export.h"
#include "renaissance/task/result.h"

namespace tr {

/// Ends a run whose metric has not got better by more than `min_delta` for `patience` epochs in a
/// row. Only epochs that have the metric count (validated ones, for metrics of validation).
struct EarlyStop {
  std::string metric;                        // one of epoch_metric_names(); empty: off
  Plateau::Mode mode = Plateau::Mode::AUTO;  // AUTO: losses fall, all else rises
  int patience = 10;                         // at least 1
  double min_delta = 0;                      // at least 0, in the metric's unit
  bool restore_best = false;  // the run ends with weights and buffers of the best epoch
};

/// Parameters whose name starts with `prefix` stand still in epochs first .. last (1-based, both
/// included): neither gradient, decay nor moments change anything. last 0: to the end.
struct Freeze {
  std::string prefix;
  int first = 1, last = 0;

  bool in_epoch(int epoch) const { return epoch >= first && (last == 0 || epoch <= last); }
  friend bool operator==(const Freeze&, const Freeze&) = default;
};

/// One of several things that a task trains for in turn, within each step and on the same batch:
/// its loss moves the parameters whose names start with `trains`, and no other, by its optimizer.
/// The next objective sees the weights that this one has moved.
struct Objective {
  std::string trains;
  Loss loss;
  Optimizer optimizer;
  std::optional<Scheduler> scheduler;  // else the task's
};

/// Names of the metrics of an EpochRecord that can be watched.
TR_API std::vector<std::string> epoch_metric_names();
/// The record's value; none where the epoch does not have it.
/// @throws InvalidArgument  an unknown name.
TR_API std::optional<double> epoch_metric(const EpochRecord& record, std::string_view name);
/// Whether more is better. @throws InvalidArgument  an unknown name.
TR_API bool metric_rises(std::string_view name, Plateau::Mode mode = Plateau::Mode::AUTO);

}  // namespace tr
