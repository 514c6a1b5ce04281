// SPDX-License-Identifier: Apache-2.0
#include "graph/plan_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/check.h"
#include "core/format.h"
#include "core/human.h"
#include "graph/op_def.h"
#include "graph/passes/pass.h"

namespace tr {
namespace {

using Json = nlohmann::ordered_json;

std::string region_line(const Region& r) {
  const bool transient = !is_persistent(r.role);
  return fmt::format(
      "  {:<15} {:<6} {:>6} {:>14} {:>14}  {}\n", transient ? "transient" : name_of(r.role),
      transient ? "any" : name_of(r.dtype), r.bucket, r.offset, r.bytes, format_bytes(r.bytes));
}

/// What a node costs, where its op tells.
Cost cost_of(const LoweredGraph& graph, const LoweredNode& node) {
  const OpDef* def = OpRegistry::instance().find(node.op);
  if (def == nullptr || !def->cost) return {};
  return def->cost(node.attrs, types_of(graph, node.inputs), types_of(graph, node.outputs));
}

RecomputedNodes recomputed_in(const LoweredGraph& graph) {
  RecomputedNodes all;
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& n) { return n.again; })) {
    return all;
  }
  for (const LoweredNode& node : graph.nodes) {
    // Inputs that only gave a type are gone from the nodes of a backward pass: the forward pass
    // tells the flops of the step.
    const Cost cost = node.again || node.label == GraphId::FORWARD ? cost_of(graph, node) : Cost{};
    if (!node.again) {
      all.step_flops += 3 * double(cost.flops);
      continue;
    }
    auto row = std::find_if(all.by_op.begin(), all.by_op.end(),
                            [&](const auto& known) { return known.op == node.op; });
    if (row == all.by_op.end()) row = all.by_op.insert(row, {node.op, 0, 0, 0});
    const auto count = [&](auto& sums) {
      ++sums.nodes;
      sums.flops += double(cost.flops);
      sums.bytes += double(cost.bytes);
    };
    count(*row);
    count(all);
  }
  std::stable_sort(all.by_op.begin(), all.by_op.end(),
                   [](const auto& a, const auto& b) { return a.nodes > b.nodes; });
  return all;
}

std::string recomputed_text(const RecomputedNodes& all) {
  if (all.nodes == 0) return "";
  std::string text = fmt::format(
      "  run again: {} nodes, {:.1f} GFLOP ({:.1f} % of the step's {:.1f}), {} read and written\n",
      all.nodes, all.flops / 1e9, 100 * all.flops / std::max(1.0, all.step_flops),
      all.step_flops / 1e9, format_bytes(std::int64_t(all.bytes)));
  for (const RecomputedNodes::Row& row : all.by_op) {
    text += fmt::format("  {:>6}  {:<20} {:>9.1f} GFLOP  {:>10}\n", row.nodes, row.op,
                        row.flops / 1e9, format_bytes(std::int64_t(row.bytes)));
  }
  return text;
}

Json recomputed_json(const RecomputedNodes& all) {
  Json json = {{"nodes", all.nodes},
               {"flops", all.flops},
               {"bytes", all.bytes},
               {"step_flops", all.step_flops},
               {"by_op", Json::array()}};
  for (const RecomputedNodes::Row& row : all.by_op) {
    json["by_op"].push_back(
        {{"op", row.op}, {"nodes", row.nodes}, {"flops", row.flops}, {"bytes", row.bytes}});
  }
  return json;
}

}  // namespace

std::string node_name(const LoweredNode& node) {
  return node.layer.empty() ? node.op : node.layer + "." + node.op;
}

double PlanReport::ratio() const {
  return lower_bound_bytes == 0 ? 1.0 : double(transient_bytes) / double(lower_bound_bytes);
}

std::string PlanReport::text() const {
  std::string text = fmt::format("  {:<15} {:<6} {:>6} {:>14} {:>14}\n", "region", "dtype",
                                 "bucket", "offset", "bytes");
  for (const Region& r : regions) text += region_line(r);
  text += fmt::format("  peak {} = persistent {} + transient {} (lower bound {}, ratio {:.3f})\n",
                      format_bytes(peak_bytes), format_bytes(persistent_bytes),
                      format_bytes(transient_bytes), format_bytes(lower_bound_bytes), ratio());
  if (!largest.empty()) {
    text += fmt::format("  largest tensors at the peak (step {} of {}, \"{}\"):\n", step, num_steps,
                        step_name);
  }
  for (const LargestTensor& t : largest) {
    text += fmt::format("  {:>10}  {}  {}  live {}..{}\n", format_bytes(t.bytes), t.type, t.name,
                        t.first_use, t.last_use);
  }
  text += recomputed_text(recomputed);
  text += "  by the articles' names:\n";
  for (const NamedRegion& r : article_names) {
    text += fmt::format("  {:<22} {:>14}  {}\n", r.name, r.bytes, format_bytes(r.bytes));
  }
  return text;
}

std::string PlanReport::json() const {
  Json json;
  json["peak_bytes"] = peak_bytes;
  json["persistent_bytes"] = persistent_bytes;
  json["transient_bytes"] = transient_bytes;
  json["lower_bound_bytes"] = lower_bound_bytes;
  json["peak"] = {{"step", step}, {"steps", num_steps}, {"name", step_name}};
  json["regions"] = Json::array();
  for (const Region& r : regions) {
    json["regions"].push_back({{"role", is_persistent(r.role) ? name_of(r.role) : "transient"},
                               {"dtype", name_of(r.dtype)},
                               {"bucket", r.bucket},
                               {"offset", r.offset},
                               {"bytes", r.bytes}});
  }
  json["run_again"] = recomputed_json(recomputed);
  json["article_regions"] = Json::array();
  for (const NamedRegion& r : article_names) {
    json["article_regions"].push_back(
        {{"name", r.name}, {"bytes", r.bytes}, {"tensors", r.num_tensors}});
  }
  json["largest"] = Json::array();
  for (const LargestTensor& t : largest) {
    const auto dims = t.type.shape.dims();
    json["largest"].push_back({{"name", t.name},
                               {"dtype", name_of(t.type.dtype)},
                               {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())},
                               {"bytes", t.bytes},
                               {"first_use", t.first_use},
                               {"last_use", t.last_use}});
  }
  return json.dump(2);
}

PlanReport report_plan(std::span<const LoweredGraph> graphs, const ArchPlan& arch,
                       const ArenaPlan& plan) {
  TR_ASSERT(!graphs.empty() && graphs.size() == plan.variants.size());
  PlanReport report;
  report.regions = plan.regions;
  report.peak_bytes = plan.peak_bytes();
  report.persistent_bytes = plan.persistent_bytes;
  report.transient_bytes = plan.transient_bytes;
  for (const LoweredGraph& graph : graphs) {
    report.lower_bound_bytes = std::max(report.lower_bound_bytes, transient_lower_bound(graph));
  }
  const auto largest = std::max_element(plan.variants.begin(), plan.variants.end(),
                                        [](const MemoryPlan& a, const MemoryPlan& b) {
                                          return a.transient_bytes < b.transient_bytes;
                                        });
  report.variant = int(largest - plan.variants.begin());
  const LoweredGraph& graph = graphs[std::size_t(report.variant)];
  report.num_steps = int(graph.nodes.size());
  report.recomputed = recomputed_in(graph);
  report.step = peak_node(*largest);
  if (report.step >= 0) report.step_name = node_name(graph.nodes[std::size_t(report.step)]);
  for (const Placement& p : live_at_peak(graph, *largest)) {
    const LoweredTensor& t = graph.tensor(p.tensor);
    report.largest.push_back({t.name, t.type, t.bytes, p.first_use, p.last_use});
  }
  for (NamedRegion& r : article_regions(graph, arch, plan, report.variant)) {
    if (r.bytes > 0) report.article_names.push_back(std::move(r));
  }
  return report;
}

std::int64_t largest_batch(std::int64_t budget_bytes,
                           const std::function<std::int64_t(std::int64_t batch)>& peak_of_batch,
                           std::int64_t limit) {
  TR_CHECK(limit >= 1, "largest_batch: the limit is {}, expected at least 1", limit);
  const auto peak = [&](std::int64_t batch) -> std::optional<std::int64_t> {
    try {
      return peak_of_batch(batch);
    } catch (const InvalidArgument&) {
      return std::nullopt;
    }
  };
  // A batch that the model does not take (one sample, or one in the epoch's last batch, in batch
  // norm) fits if the next one does that it takes.
  const auto fits = [&](std::int64_t batch) {
    constexpr std::int64_t kMostRefused = 16;  // in a row
    const std::int64_t end = batch + std::min(kMostRefused, limit - batch + 1);
    for (; batch < end; ++batch) {
      if (const auto bytes = peak(batch)) return *bytes <= budget_bytes;
    }
    return false;
  };
  if (!fits(1)) return 0;
  std::int64_t good = 1, bad = 2;
  while (bad <= limit && fits(bad)) {
    good = bad;
    bad *= 2;
  }
  bad = std::min(bad, limit + 1);
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  while (good > 0 && !peak(good)) --good;
  return good;
}

}  // namespace tr
