// SPDX-License-Identifier: Apache-2.0
#include "task/graph_options.h"

#include <algorithm>

#include "algo/optimizer_spec.h"

namespace tr {

namespace {

constexpr int kTableRows = 1024;  // of the step tables, at least: a step's micro-batches fit in

}  // namespace

GraphOptions graph_options(const Config& config, const BatchPlan& batches,
                           const FreezePlan& freezes, const ResolvedGroups& groups) {
  const TrainOptions& train = config.train;
  GraphOptions options;
  options.low_dtype = config.global.values().low_dtype;
  for (const LayerPrecisionRule& rule : train.precision) {
    options.precision.push_back({rule.layer, rule.dtype == LayerDType::LOW});
  }
  options.loss_scaling = options.low_dtype == DType::FP16;
  options.initial_loss_scale = options.loss_scaling ? train.loss_scale : 1.0f;
  options.loss_scale_growth_interval = train.loss_scale_growth;
  options.grad_clip_norm = train.grad_clip_norm;
  options.grad_clip_value = train.grad_clip_value;
  options.ema_decay = train.ema_decay;
  options.accumulate_steps = batches.accumulate_steps;
  options.world_size = batches.world_size;
  options.table_capacity = std::max(kTableRows, batches.accumulate_steps);
  options.matrices_except = matrices_except(train.optimizer);
  options.top_k = train.top_k;
  options.confusion = train.confusion_matrix;
  options.rates = groups.rates;
  options.num_rate_columns = int(groups.columns.size());
  options.num_objectives = int(train.objectives.size());
  for (const Objective& objective : train.objectives)
    options.groups.push_back({.match = objective.trains});
  if (freezes.changes() || options.num_objectives > 0) {
    options.frozen_states = freezes.states;
  } else {
    for (const std::string& prefix : freezes.states.front())
      options.groups.push_back({.match = prefix, .frozen = true});
  }
  return options;
}

}  // namespace tr
