// SPDX-License-Identifier: Apache-2.0
// cast to the dtype that a tensor has already, reduce_to its own shape: the readers read the source instead.
#include <algorithm>

#include "graph/passes/pass.h"

namespace tr {
namespace {

bool is_identity(const LoweredGraph& graph, const LoweredNode& node) {
  if (node.op != "cast" && node.op != "reduce_to") return false;
  return graph.tensor(node.inputs[0]).type == graph.tensor(node.outputs[0]).type;
}

}  // namespace

void eliminate_identities(LoweredGraph& graph, const KernelOracle&) {
  std::vector<TensorId> source(graph.tensors.size());
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = TensorId(i);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    LoweredNode& node = graph.nodes[n];
    for (TensorId& id : node.inputs) {
      if (id != kNoTensor) id = source[std::size_t(id)];
    }
    if (!is_identity(graph, node)) continue;
    const TensorId in = node.inputs[0];
    const TensorId out = node.outputs[0];
    if (!is_persistent(graph.tensor(out).role)) {
      source[std::size_t(out)] = in;
      gone[n] = true;
    } else if (!is_persistent(graph.tensor(in).role)) {
      // A gradient that needs no conversion: its producer writes the persistent tensor itself, if nothing
      // in between reads or writes that.
      const Uses uses(graph);
      const int producer = uses.writer(in);
      LoweredNode& first = graph.nodes[std::size_t(producer)];
      std::replace(first.outputs.begin(), first.outputs.end(), in, out);
      source[std::size_t(in)] = out;
      gone[n] = true;
    }
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
