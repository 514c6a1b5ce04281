// SPDX-License-Identifier: Apache-2.0
#include "graph/compiler.h"

#include <algorithm>

#include "core/check.h"
#include "core/format.h"

namespace tr {
namespace {

const ComputationGraph& logical_graph(CompileResult& result, const GraphSources& sources,
                                      const GraphKind& kind) {
  for (const auto& [known, graph] : result.logical) {
    if (known == kind) return graph;
  }
  result.logical.emplace_back(kind, build_computation_graph(sources, kind));
  return result.logical.back().second;
}

GraphAtlas make_atlas(const CompileResult& result, const std::vector<int>& lowered_of) {
  GraphAtlas atlas(result.variants.size());
  for (std::size_t v = 0; v < result.variants.size(); ++v) {
    const int lowered = lowered_of[v];
    atlas.set_whole(int(v), lowered);
    const std::vector<LoweredNode>& nodes = result.lowered[std::size_t(lowered)].nodes;
    for (int id = 0; id < kNumGraphIds; ++id) atlas.at(int(v), GraphId(id)).lowered = lowered;
    for (int first = 0; first < int(nodes.size());) {
      int last = first + 1;
      const GraphId label = nodes[std::size_t(first)].label;
      while (last < int(nodes.size()) && nodes[std::size_t(last)].label == label) ++last;
      atlas.at(int(v), label).runs.emplace_back(first, last);
      first = last;
    }
  }
  return atlas;
}

/// Keeps one of every set of equal lowered graphs and its plan; returns the kept index of each variant.
std::vector<int> keep_distinct(CompileResult& result) {
  const std::vector<int> first_equal = share_or_clone(result.lowered);
  std::vector<int> kept_index(first_equal.size(), -1);
  std::vector<LoweredGraph> lowered;
  std::vector<MemoryPlan> plans;
  for (std::size_t v = 0; v < first_equal.size(); ++v) {
    const std::size_t source = std::size_t(first_equal[v]);
    if (source == v) {
      kept_index[v] = int(lowered.size());
      lowered.push_back(std::move(result.lowered[v]));
      plans.push_back(std::move(result.memory.variants[v]));
    } else {
      kept_index[v] = kept_index[source];
    }
  }
  result.lowered = std::move(lowered);
  result.memory.variants = std::move(plans);
  return kept_index;
}

}  // namespace

void check_kernels_exist(const ArchPlan& arch, const KernelOracle& oracle) {
  for (const ArchLayer& layer : arch.layers) {
    const OpDef& def = OpRegistry::instance().get(layer.op);
    const bool is_view = !def.views.empty();
    if (is_view || oracle.knows(layer.op)) continue;
    throw_as<Unsupported>("{}: no {} kernel exists for this op\n  in layer \"{}\"{}", layer.op,
                          oracle.device(), layer.name,
                          layer.where.empty() ? "" : ", built at " + layer.where.str());
  }
}

CompileResult compile(const CompileRequest& request, const KernelOracle& oracle) {
  const OpRegistry::Seal seal;
  TR_CHECK(!request.variants.empty(), "compile: no variant is asked for");
  CompileResult result;
  result.arch = expand(request.model, request.sample_fields);
  check_kernels_exist(result.arch, oracle);
  result.variants = request.variants;
  const GraphSources sources{result.arch, request.sample_fields, request.loss, request.optimizer,
                             request.graph, request.objectives};
  for (const VariantKey& key : request.variants) {
    const ComputationGraph& graph = logical_graph(result, sources, kind_of(key));
    result.lowered.push_back(lower(graph, derive_shapes(graph, key), oracle));
  }
  const auto slot_bytes = compute_max_slot_bytes(result.lowered);
  result.memory =
      create_memory_plans(result.lowered, result.arch, request.graph, slot_bytes, request.memory);
  const std::vector<int> lowered_of = keep_distinct(result);
  result.atlas = make_atlas(result, lowered_of);
  result.constants = request.loss.constants;
  for (const ObjectiveSpec& objective : request.objectives) {
    const auto& more = objective.loss.constants;
    result.constants.insert(result.constants.end(), more.begin(), more.end());
  }
  return result;
}

KernelChoice PlanningOracle::choose(const std::string& op, const Attrs&,
                                    std::span<const TensorType>,
                                    std::span<const TensorType>) const {
  constexpr std::int64_t kConvWorkspaceBytes = 32 << 20;
  const bool is_conv = op == "conv" || op == "conv_dx" || op == "conv_dweight";
  return {"planned", is_conv ? kConvWorkspaceBytes : 0};
}

}  // namespace tr
