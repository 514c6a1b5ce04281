// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/format.h"
#include "graph/arch_plan.h"

namespace tr {
namespace {

std::string sample_shape(const ArchLayer& layer) {
  return layer.types.front().shape.drop_first().str();
}

std::string with_unit(double value) {
  if (value >= 1e9) return fmt::format("{:.2f} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.2f} M", value / 1e6);
  if (value >= 1e3) return fmt::format("{:.2f} k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

}  // namespace

std::string ArchPlan::text() const {
  std::string out = fmt::format("{:<36} {:<16} {:<20} {:>12} {:>12}\n", "layer", "op",
                                "output of a sample", "parameters", "FLOPs");
  for (const ArchInput& in : inputs) {
    out += fmt::format("{:<36} {:<16} {:<20}\n", in.field, "input", in.sample_type.shape.str());
  }
  for (const ArchLayer& layer : layers) {
    out += fmt::format("{:<36} {:<16} {:<20} {:>12} {:>12}\n",
                       layer.name.empty() ? "-" : layer.name, layer.op, sample_shape(layer),
                       layer.num_params, with_unit(double(layer.cost.flops)));
  }
  out += fmt::format("{} layers, {} parameters, {}FLOPs a sample (forward)\n", layers.size(),
                     num_params(), with_unit(double(flops())));
  return out;
}

std::string ArchPlan::json() const {
  auto rows = nlohmann::json::array();
  for (const ArchLayer& layer : layers) {
    auto dims = nlohmann::json::array();
    const Shape sample = layer.types.front().shape.drop_first();
    for (const std::int64_t dim : sample.dims()) dims.push_back(dim);
    auto names = nlohmann::json::array();
    for (const int index : layer.params) names.push_back(params[std::size_t(index)].name);
    rows.push_back({{"name", layer.name},
                    {"op", layer.op},
                    {"attrs", layer.attrs.text()},
                    {"output_shape", dims},
                    {"parameters", layer.num_params},
                    {"parameter_names", names},
                    {"flops", layer.cost.flops}});
  }
  return rows.dump();
}

}  // namespace tr
