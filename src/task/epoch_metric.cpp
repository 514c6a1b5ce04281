// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/nearest_name.h"
#include "renaissance/task/control.h"

namespace tr {
namespace {

struct MetricRow {
  std::string_view name;
  bool rises;
  bool may_be_absent;  // then it is -1
  double EpochRecord::*value;
};

constexpr MetricRow kMetrics[] = {{"train_loss", false, false, &EpochRecord::train_loss},
                               {"train_top1", true, true, &EpochRecord::train_top1},
                               {"val_loss", false, true, &EpochRecord::val_loss},
                               {"top1", true, true, &EpochRecord::top1},
                               {"top5", true, true, &EpochRecord::top5},
                               {"macro_f1", true, true, &EpochRecord::macro_f1}};

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
  if (metric.may_be_absent && value == -1) return std::nullopt;
  return value;
}

bool metric_rises(std::string_view name, Plateau::Mode mode) {
  const MetricRow& metric = find(name);
  return mode == Plateau::Mode::AUTO ? metric.rises : mode == Plateau::Mode::MAX;
}

}  // namespace tr
