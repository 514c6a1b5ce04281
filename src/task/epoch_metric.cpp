// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/nearest_name.h"
#include "renaissance/task/control.h"

namespace tr {
namespace {

/// When a metric is there.
enum class Presence { ALWAYS, VALIDATED, UNLESS_MINUS_ONE };

struct MetricRow {
  std::string_view name;
  bool rises;
  Presence presence;
  double EpochRecord::*value;
};

constexpr MetricRow kMetrics[] = {
    {"train_loss", false, Presence::ALWAYS, &EpochRecord::train_loss},
    {"train_top1", true, Presence::UNLESS_MINUS_ONE, &EpochRecord::train_top1},
    {"val_loss", false, Presence::VALIDATED, &EpochRecord::val_loss},
    {"top1", true, Presence::UNLESS_MINUS_ONE, &EpochRecord::top1},
    {"top5", true, Presence::UNLESS_MINUS_ONE, &EpochRecord::top5},
    {"macro_f1", true, Presence::UNLESS_MINUS_ONE, &EpochRecord::macro_f1}};

const MetricRow& find(std::string_view name) {
  for (const MetricRow& metric : kMetrics) {
    if (metric.name == name) return metric;
  }
  throw_as<InvalidArgument>("{}", unknown_name_message("metric", name, epoch_metric_names()));
}

}  // namespace

std::vector<std::string> epoch_metric_names() {
  std::vector<std::string> names;
  for (const MetricRow& metric : kMetrics) names.emplace_back(metric.name);
  return names;
}

std::optional<double> epoch_metric(const EpochRecord& record, std::string_view name) {
  const MetricRow& metric = find(name);
  const double value = record.*metric.value;
  if (metric.presence == Presence::VALIDATED && !record.validated) return std::nullopt;
  if (metric.presence == Presence::UNLESS_MINUS_ONE && value == -1) return std::nullopt;
  return value;
}

bool metric_rises(std::string_view name, Plateau::Mode mode) {
  const MetricRow& metric = find(name);
  return mode == Plateau::Mode::AUTO ? metric.rises : mode == Plateau::Mode::MAX;
}

}  // namespace tr
