// SPDX-License-Identifier: Apache-2.0
// cast to the dtype that a tensor has already, reduce_to its own shape, means of single cells: the
// readers read the source instead. mul_reduce that sums nothing is mul.
#include <algorithm>

#include "graph/passes/pass.h"

namespace tr {
namespace {

bool is_identity(const LoweredGraph& graph, const LoweredNode& node) {
  const std::string_view ops[] = {"cast", "reduce_to", "adaptive_avgpool",
                                  "adaptive_avgpool_backward"};
  if (std::find(std::begin(ops), std::end(ops), node.op) == std::end(ops)) return false;
  return graph.tensor(node.inputs[0]).type == graph.tensor(node.outputs[0]).type;
}

void simplify(const LoweredGraph& graph, LoweredNode& node) {
  if (node.op != "mul_reduce") return;
  if (graph.tensor(node.inputs[0]).type != graph.tensor(node.outputs[0]).type) return;
  node.op = "mul";
  node.inputs.resize(2);
}

bool touches(const LoweredNode& node, TensorId id) {
  const auto among = [&](const std::vector<TensorId>& ids) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  return among(node.inputs) || among(node.outputs);
}

/// Lets the producer of `in` write the persistent `out` itself, and the readers up to node `end`
/// read that. False if `out` is in use between them: both values are needed then.
bool write_directly(LoweredGraph& graph, TensorId in, TensorId out, std::size_t end) {
  const int producer = Uses(graph).writer(in);
  if (producer < 0 || std::size_t(producer) >= end) return false;
  const auto first = graph.nodes.begin() + producer;
  if (!OpRegistry::instance().get(first->op).views.empty()) return false;  // it writes nothing
  const auto last = graph.nodes.begin() + std::ptrdiff_t(end);
  if (std::any_of(first, last, [&](const LoweredNode& node) { return touches(node, out); }))
    return false;
  std::replace(first->outputs.begin(), first->outputs.end(), in, out);
  for (auto node = first + 1; node != last; ++node)
    std::replace(node->inputs.begin(), node->inputs.end(), in, out);
  return true;
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
    simplify(graph, node);
    if (!is_identity(graph, node)) continue;
    const TensorId in = node.inputs[0];
    const TensorId out = node.outputs[0];
    if (!is_persistent(graph.tensor(out).role)) {
      source[std::size_t(out)] = in;
      gone[n] = true;
    } else if (!is_persistent(graph.tensor(in).role) && write_directly(graph, in, out, n)) {
      // A gradient or an output of the model that needs no conversion.
      source[std::size_t(in)] = out;
      gone[n] = true;
    }
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
