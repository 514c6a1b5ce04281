// SPDX-License-Identifier: Apache-2.0
#include "task/graph_assembly.h"

#include <map>
#include <string>

namespace tr {

bool is_view_op(const OpDef& def) {
  return !def.views.empty() && def.views.size() == def.outputs.size();
}

CompileResult assemble(std::span<const ComputationGraph> graphs, const KernelOracle& oracle,
                       const PlanOptions& memory) {
  const OpRegistry::Seal seal;
  CompileResult result;
  result.atlas = GraphAtlas(graphs.size());
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    VariantKey key;
    key.name = "graph " + std::to_string(i);
    verify(graphs[i], "add_graph");
    result.lowered.push_back(lower(graphs[i], derive_shapes(graphs[i], key), oracle));
    result.atlas.set_whole(int(i), int(i));
    result.variants.push_back(std::move(key));
  }
  const auto slot_bytes = compute_max_slot_bytes(result.lowered);
  result.memory =
      create_memory_plans(result.lowered, result.arch, GraphOptions{}, slot_bytes, memory);
  return result;
}

}  // namespace tr
