// SPDX-License-Identifier: Apache-2.0
#include "graph/precision_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/format.h"

namespace tr {
namespace {

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::LOW: return "low";
    case Precision::FOLLOW: return "follow";
    case Precision::HIGH: return "high";
  }
  return "unknown";
}

/// `prefix` is the name or begins it up to a dot; "" matches every layer.
bool matches(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  return prefix.empty() || prefix.back() == '.' || name.size() == prefix.size() ||
         name[prefix.size()] == '.';
}

const PrecisionRule* rule_of(const GraphOptions& options, std::string_view layer) {
  const auto& rules = options.precision;
  const auto last = std::find_if(rules.rbegin(), rules.rend(), [&](const PrecisionRule& rule) {
    return matches(layer, rule.layer);
  });
  return last == rules.rend() ? nullptr : &*last;
}

void check_rules(const ArchPlan& plan, const GraphOptions& options) {
  for (const PrecisionRule& rule : options.precision) {
    const bool any =
        std::any_of(plan.layers.begin(), plan.layers.end(),
                    [&](const ArchLayer& layer) { return matches(layer.name, rule.layer); });
    TR_CHECK(any,
             "precision: no layer is called \"{}\" or begins with \"{}.\"; the first is \"{}\"",
             rule.layer, rule.layer, plan.layers.empty() ? "" : plan.layers.front().name);
    TR_CHECK(!rule.low || options.low_dtype,
             "precision: \"{}\" is to compute in the low dtype, but amp is off", rule.layer);
  }
}

/// The widest floating dtype that comes to a layer; fp32 if none does (rows looked up by number).
DType widest_input(const ArchLayer& layer, const std::vector<DType>& values) {
  DType widest = DType::INT32;
  for (const int value : layer.inputs) {
    const DType dtype = values[std::size_t(value)];
    if (is_floating(dtype) && (dtype == DType::FP32 || !is_floating(widest))) widest = dtype;
  }
  return is_floating(widest) ? widest : DType::FP32;
}

LayerPrecision precision_of(const OpDef& def, const ArchLayer& layer, const GraphOptions& options,
                            const std::vector<DType>& values) {
  LayerPrecision result;
  const PrecisionRule* rule = rule_of(options, layer.name);
  result.compute = def.precision == Precision::LOW && options.low_dtype
                       ? *options.low_dtype
                       : widest_input(layer, values);
  if (rule != nullptr) {
    // A prefix may hold layers that keep fp32 results; only their inputs' dtype could be low then.
    const bool keeps = rule->low && def.precision == Precision::HIGH;
    TR_CHECK(!keeps || rule->layer != layer.name,
             "precision: \"{}\" ({}) gives fp32 by definition, it cannot be low", layer.name,
             layer.op);
    if (!keeps) {
      result.compute = rule->low ? *options.low_dtype : DType::FP32;
      result.by_rule = true;
    }
  }
  result.output = def.precision == Precision::HIGH ? DType::FP32 : result.compute;
  const DType planned = layer.types.front().dtype;
  if (!is_floating(planned)) result.output = planned;  // comparisons give bool
  return result;
}

}  // namespace

DType input_dtype(const ArchInput& input, const GraphOptions& options) {
  const bool image = input.field == "image" && is_floating(input.sample_type.dtype);
  return image && options.low_dtype ? *options.low_dtype : input.sample_type.dtype;
}

std::vector<LayerPrecision> plan_precision(const ArchPlan& plan, const GraphOptions& options) {
  check_rules(plan, options);
  std::vector<DType> values;
  for (const ArchInput& input : plan.inputs) values.push_back(input_dtype(input, options));
  std::vector<LayerPrecision> all;
  for (const ArchLayer& layer : plan.layers) {
    const OpDef& def = OpRegistry::instance().get(layer.op);
    all.push_back(precision_of(def, layer, options, values));
    values.push_back(all.back().output);
  }
  return all;
}

std::string precision_text(const ArchPlan& plan, const GraphOptions& options) {
  const std::vector<LayerPrecision> all = plan_precision(plan, options);
  std::string text =
      fmt::format("{:<36} {:<16} {:<8} {:<8} {:<8}", "layer", "op", "policy", "computes", "output");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ArchLayer& layer = plan.layers[i];
    const OpDef& def = OpRegistry::instance().get(layer.op);
    text += fmt::format("\n{:<36} {:<16} {:<8} {:<8} {:<8}", layer.name.empty() ? "-" : layer.name,
                        layer.op, all[i].by_rule ? "rule" : name_of(def.precision),
                        tr::name_of(all[i].compute), tr::name_of(all[i].output));
  }
  return text;
}

std::string precision_json(const ArchPlan& plan, const GraphOptions& options) {
  const std::vector<LayerPrecision> all = plan_precision(plan, options);
  auto rows = nlohmann::json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const OpDef& def = OpRegistry::instance().get(plan.layers[i].op);
    rows.push_back({{"name", plan.layers[i].name},
                    {"op", plan.layers[i].op},
                    {"policy", all[i].by_rule ? "rule" : name_of(def.precision)},
                    {"computes", tr::name_of(all[i].compute)},
                    {"output", tr::name_of(all[i].output)}});
  }
  return rows.dump();
}

}  // namespace tr
