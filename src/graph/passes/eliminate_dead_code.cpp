// SPDX-License-Identifier: Apache-2.0
// A node stays if it writes a persistent tensor or if a node that stays reads what it writes.
#include "graph/passes/pass.h"

namespace tr {
namespace {

bool writes_persistent(const LoweredGraph& graph, const LoweredNode& node) {
  if (!node.state_writes.empty()) return true;
  for (const TensorId id : node.outputs) {
    if (is_persistent(graph.tensor(id).role)) return true;
  }
  return false;
}

}  // namespace

void eliminate_dead_code(LoweredGraph& graph, const KernelOracle&) {
  std::vector<bool> needed(graph.tensors.size(), false);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const LoweredNode& node = graph.nodes[n];
    bool stays = writes_persistent(graph, node);
    for (const TensorId id : node.outputs) stays = stays || needed[std::size_t(id)];
    gone[n] = !stays;
    if (!stays) continue;
    for (const TensorId id : node.inputs) {
      if (id != kNoTensor) needed[std::size_t(id)] = true;
    }
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
