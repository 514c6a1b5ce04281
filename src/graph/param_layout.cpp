// SPDX-License-Identifier: Apache-2.0
#include "graph/param_layout.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "core/check.h"
#include "core/format.h"

namespace tr {
namespace {

std::int64_t padded(std::int64_t elements) {
  return (elements + kParamAlignment - 1) / kParamAlignment * kParamAlignment;
}

bool is_buffer(const Param& param) { return param.spec.kind == ParamKind::BUFFER; }

/// Trainable parameters in the order in which the backward pass completes their gradients: a shared
/// one is complete at its first layer, which the backward pass reaches last.
std::vector<int> completion_order(const ArchPlan& plan) {
  std::vector<int> order;
  for (int p = 0; p < int(plan.params.size()); ++p) {
    if (!is_buffer(plan.params[std::size_t(p)])) order.push_back(p);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return plan.params[std::size_t(a)].layer > plan.params[std::size_t(b)].layer;
  });
  return order;
}

bool is_matrix(const Param& param, const GraphOptions& options) {
  if (!options.matrices_except || param.spec.kind != ParamKind::WEIGHT ||
      param.spec.type.shape.rank() != 2)
    return false;
  const std::vector<std::string>& except = *options.matrices_except;
  return std::none_of(except.begin(), except.end(), [&](const std::string& prefix) {
    return std::string_view(param.name).starts_with(prefix);
  });
}

void set_rates(Segment& segment, const ParamRates& rates, const GraphOptions& options) {
  segment.lr_scale *= rates.lr_scale;
  if (rates.decays) segment.decay_scale = *rates.decays ? 1.0f : 0.0f;
  if (rates.column == ParamRates::kRuleColumn) return;
  segment.group = int(options.groups.size()) + 1 + rates.column;
}

Segment make_segment(int param, const Param& of, std::int64_t begin, const GraphOptions& options) {
  const auto rule = std::find_if(
      options.groups.begin(), options.groups.end(),
      [&](const GroupRule& g) { return std::string_view(of.name).starts_with(g.match); });
  Segment segment;
  segment.begin = begin;
  segment.count = of.spec.type.shape.num_elements();
  segment.param = param;
  segment.group = int(rule - options.groups.begin());
  if (is_matrix(of, options)) segment.rows = std::int32_t(of.spec.type.shape[0]);
  bool decays = of.spec.kind == ParamKind::WEIGHT;
  if (rule != options.groups.end()) {
    segment.lr_scale = rule->lr_scale;
    segment.frozen = rule->frozen ? 1 : 0;
    decays = rule->decay.value_or(decays);
  }
  segment.decay_scale = decays ? 1.0f : 0.0f;
  const auto own = options.rates.find(of.name);
  if (own != options.rates.end()) set_rates(segment, own->second, options);
  return segment;
}

/// Objectives one after the other, within each as the backward pass completes.
std::vector<int> order_of(const ArchPlan& plan, const GraphOptions& options) {
  std::vector<int> order = completion_order(plan);
  if (options.num_objectives == 0) return order;
  const auto group = [&](int p) {
    return make_segment(p, plan.params[std::size_t(p)], 0, options).group;
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return group(a) < group(b); });
  return order;
}

/// A bucket for each group, empty ones included.
void cut_by_group(ParamLayout& layout, int num_groups) {
  std::int64_t begin = 0;
  for (int group = 0; group < num_groups; ++group) {
    std::int64_t end = begin;
    for (const Segment& s : layout.segments) {
      if (s.group == group) end = s.begin + padded(s.count);
    }
    layout.buckets.emplace_back(begin, end);
    begin = end;
  }
}

void cut_buckets(ParamLayout& layout, const GraphOptions& options) {
  if (layout.range_elements == 0) return;
  if (options.num_objectives > 0) return cut_by_group(layout, num_param_groups(options));
  if (options.world_size == 1) {
    layout.buckets = {{0, layout.range_elements}};
    return;
  }
  const std::int64_t most =
      std::max<std::int64_t>(1, options.bucket_bytes / std::int64_t(sizeof(float)));
  std::int64_t begin = 0;
  for (const Segment& s : layout.segments) {
    if (s.begin > begin && s.begin + padded(s.count) - begin > most) {
      layout.buckets.emplace_back(begin, s.begin);
      begin = s.begin;
    }
  }
  layout.buckets.emplace_back(begin, layout.range_elements);
}

}  // namespace

int num_param_groups(const GraphOptions& options) {
  return int(options.groups.size()) + 1 + options.num_rate_columns;
}

ParamLayout layout_params(const ArchPlan& plan, const GraphOptions& options) {
  TR_CHECK(options.bucket_bytes >= 1, "bucket_bytes is {}, expected at least 1",
           options.bucket_bytes);
  ParamLayout layout;
  layout.element_offset.assign(plan.params.size(), -1);
  layout.buffer_offset.assign(plan.params.size(), -1);
  for (const Param& p : plan.params) {
    TR_CHECK(p.spec.type.dtype == DType::FP32,
             "{}: the parameter is {}, expected fp32 (master weights and buffers are kept in it)",
             p.name, p.spec.type);
  }
  for (const int p : order_of(plan, options)) {
    const Param& param = plan.params[std::size_t(p)];
    layout.element_offset[std::size_t(p)] = layout.range_elements;
    layout.segments.push_back(make_segment(p, param, layout.range_elements, options));
    layout.range_elements += padded(param.spec.type.shape.num_elements());
  }
  for (std::size_t p = 0; p < plan.params.size(); ++p) {
    if (!is_buffer(plan.params[p])) continue;
    layout.buffer_offset[p] = layout.buffer_elements;
    layout.buffer_elements += padded(plan.params[p].spec.type.shape.num_elements());
  }
  cut_buckets(layout, options);
  return layout;
}

}  // namespace tr
