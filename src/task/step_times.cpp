// SPDX-License-Identifier: Apache-2.0
#include "task/step_times.h"

#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

#include "core/format.h"

namespace tr {

namespace {

/// The lower of the two in the middle where their number is even: a time that was measured.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ptrdiff_t((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

const LoweredGraph& graph_of(const CompileResult& compiled, int variant) {
  return compiled.lowered.at(std::size_t(compiled.atlas.whole(variant)));
}

std::string op_name(const LoweredGraph& graph, int node) {
  if (node == NodeSpan::kInputs) return "inputs";
  const LoweredNode& of = graph.nodes.at(std::size_t(node));
  return fmt::format("{:03} {}{}{}", node, of.op, of.layer.empty() ? "" : " ", of.layer);
}

GraphId stage_of(const LoweredGraph& graph, int node) {
  return node == NodeSpan::kInputs ? GraphId::TRANSFER : graph.nodes.at(std::size_t(node)).label;
}

/// Seconds by part, one value a step; parts in the order in which they were first met.
class Parts {
 public:
  void add(const std::string& name, std::size_t step, double seconds) {
    auto found = std::find_if(parts_.begin(), parts_.end(),
                              [&](const Part& part) { return part.name == name; });
    if (found == parts_.end()) found = parts_.insert(parts_.end(), {name, {}});
    found->seconds.resize(std::max(found->seconds.size(), step + 1), 0.0);
    found->seconds[step] += seconds;
  }

  std::vector<PartTime> medians(double step_seconds) const {
    std::vector<PartTime> result;
    for (const Part& part : parts_) {
      const double seconds = median(part.seconds);
      result.push_back({part.name, seconds, step_seconds > 0 ? seconds / step_seconds : 0});
    }
    return result;
  }

 private:
  struct Part {
    std::string name;
    std::vector<double> seconds;  // by step
  };
  std::vector<Part> parts_;
};

std::vector<const StepTiming*> of_variant(std::span<const StepTiming> timings, int variant) {
  std::vector<const StepTiming*> found;
  for (const StepTiming& timing : timings) {
    if (timing.variant == variant) found.push_back(&timing);
  }
  return found;
}

std::string part_lines(std::span<const PartTime> parts) {
  std::string text;
  for (const PartTime& part : parts) {
    text += fmt::format("  {:<40} {:>10.2f} us {:>6.1f} %\n", part.name, part.seconds * 1e6,
                        100 * part.share);
  }
  return text;
}

nlohmann::json parts_json(std::span<const PartTime> parts) {
  nlohmann::json list = nlohmann::json::array();
  for (const PartTime& part : parts)
    list.push_back({{"name", part.name}, {"us", part.seconds * 1e6}, {"share", part.share}});
  return list;
}

}  // namespace

std::vector<VariantTimes> summarize(std::span<const StepTiming> timings,
                                    const CompileResult& compiled) {
  std::vector<VariantTimes> all;
  for (int variant = 0; variant < int(compiled.variants.size()); ++variant) {
    const std::vector<const StepTiming*> steps = of_variant(timings, variant);
    if (steps.empty()) continue;
    const LoweredGraph& graph = graph_of(compiled, variant);
    Parts stages, ops;
    std::vector<double> sums;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      double sum = 0;
      for (const NodeSpan& span : steps[s]->spans) {
        stages.add(std::string(name_of(stage_of(graph, span.node))), s, span.seconds);
        ops.add(op_name(graph, span.node), s, span.seconds);
        sum += span.seconds;
      }
      sums.push_back(sum);
    }
    VariantTimes times;
    times.variant = compiled.variants[std::size_t(variant)].name;
    times.num_steps = std::int64_t(steps.size());
    times.step_seconds = median(sums);
    times.stages = stages.medians(times.step_seconds);
    times.ops = ops.medians(times.step_seconds);
    all.push_back(std::move(times));
  }
  return all;
}

std::vector<double> node_medians(std::span<const StepTiming> timings, const CompileResult& compiled,
                                 int lowered) {
  std::vector<std::vector<double>> seconds(compiled.lowered.at(std::size_t(lowered)).nodes.size());
  bool any = false;
  for (const StepTiming& step : timings) {
    if (compiled.atlas.whole(step.variant) != lowered) continue;
    any = true;
    for (const NodeSpan& span : step.spans) {
      if (span.node >= 0) seconds.at(std::size_t(span.node)).push_back(span.seconds);
    }
  }
  std::vector<double> medians;
  if (!any) return medians;
  for (std::vector<double>& of_node : seconds) medians.push_back(median(std::move(of_node)));
  return medians;
}

std::vector<ShownGraph> shown_graphs(const CompileResult& compiled,
                                     std::span<const StepTiming> timings) {
  std::vector<ShownGraph> graphs(compiled.lowered.size());
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    graphs[i].graph = &compiled.lowered[i];
    graphs[i].node_seconds = node_medians(timings, compiled, int(i));
  }
  for (std::size_t v = 0; v < compiled.variants.size(); ++v) {
    std::string& name = graphs[std::size_t(compiled.atlas.whole(int(v)))].name;
    name += (name.empty() ? "" : ", ") + compiled.variants[v].name;
  }
  return graphs;
}

std::string write_graphs(std::span<const ShownGraph> graphs, GraphFormat format) {
  return format == GraphFormat::DOT ? graphs_dot(graphs) : graphs_json(graphs);
}

std::string to_text(std::span<const VariantTimes> times) {
  std::string text;
  for (const VariantTimes& variant : times) {
    text += fmt::format("{}: {} step{} timed, nodes one after another, median {:.2f} us\n",
                        variant.variant, variant.num_steps, variant.num_steps == 1 ? "" : "s",
                        variant.step_seconds * 1e6);
    text += part_lines(variant.stages) + "  by op:\n" + part_lines(variant.ops);
  }
  return text;
}

nlohmann::json to_json(std::span<const VariantTimes> times) {
  nlohmann::json list = nlohmann::json::array();
  for (const VariantTimes& variant : times) {
    list.push_back({{"variant", variant.variant},
                    {"num_steps", variant.num_steps},
                    {"step_us", variant.step_seconds * 1e6},
                    {"stages", parts_json(variant.stages)},
                    {"ops", parts_json(variant.ops)}});
  }
  return list;
}

}  // namespace tr
