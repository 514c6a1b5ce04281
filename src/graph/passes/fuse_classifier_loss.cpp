// SPDX-License-Identifier: Apache-2.0
//   softmax_cross_entropy, topk_correct [, loss_seed, softmax_cross_entropy_backward]  becomes
//   classifier_loss
// where all of them read the same scores and class numbers, and nobody else reads the
// log-probabilities.
#include "graph/passes/pass.h"

namespace tr {
namespace {

struct Parts {
  int loss = -1, topk = -1, seed = -1, backward = -1;
};

/// The parts around the loss node `loss`; topk -1: they are not all there.
Parts parts_of(const LoweredGraph& graph, const Uses& uses, int loss) {
  Parts parts{.loss = loss};
  const LoweredNode& forward = graph.nodes[std::size_t(loss)];
  const auto is = [&](int node, std::string_view op) {
    return node >= 0 && graph.nodes[std::size_t(node)].op == op;
  };
  const std::vector<int>& readers = uses.readers(forward.outputs[1]);
  if (readers.size() > 1 || is_persistent(graph.tensor(forward.outputs[1]).role)) return parts;
  if (readers.size() == 1) {
    if (!is(readers[0], "softmax_cross_entropy_backward")) return parts;
    const LoweredNode& backward = graph.nodes[std::size_t(readers[0])];
    const int seed = uses.writer(backward.inputs[0]);
    const bool same = backward.inputs[2] == forward.inputs[1] && is(seed, "loss_seed") &&
                      uses.sole_reader(backward.inputs[0]) == readers[0];
    if (!same) return parts;
    parts.seed = seed;
    parts.backward = readers[0];
  }
  for (const int reader : uses.readers(forward.inputs[0])) {
    const LoweredNode& node = graph.nodes[std::size_t(reader)];
    if (node.op == "topk_correct" && node.inputs[0] == forward.inputs[0] &&
        node.inputs[1] == forward.inputs[1])
      parts.topk = reader;
  }
  return parts;
}

void try_fuse(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int loss,
              std::vector<bool>& gone) {
  const Parts parts = parts_of(graph, uses, loss);
  constexpr std::int64_t kFusedPlaces = 5;  // classifier_loss counts top 1 and top 5
  if (parts.topk < 0 || graph.nodes[std::size_t(parts.topk)].attrs.i64("k") != kFusedPlaces) return;
  LoweredNode fused = graph.nodes[std::size_t(loss)];
  const bool gradient = parts.backward >= 0;
  fused.op = "classifier_loss";
  fused.attrs = {};
  fused.attrs.set("label_smoothing", graph.nodes[std::size_t(loss)].attrs.f64("label_smoothing"));
  fused.attrs.set("gradient", gradient);
  fused.outputs = {fused.outputs[0], graph.nodes[std::size_t(parts.topk)].outputs[0]};
  if (gradient) {
    const LoweredNode& backward = graph.nodes[std::size_t(parts.backward)];
    const LoweredNode& seed = graph.nodes[std::size_t(parts.seed)];
    if (backward.attrs.f64("label_smoothing") != fused.attrs.f64("label_smoothing")) return;
    fused.attrs.set("dtype", std::string(name_of(graph.tensor(backward.outputs[0]).type.dtype)));
    fused.inputs.insert(fused.inputs.end(), seed.inputs.begin(), seed.inputs.end());
    fused.outputs.push_back(backward.outputs[0]);
  }
  fused.attrs = complete_attrs(OpRegistry::instance().get(fused.op), fused.attrs);
  if (!oracle.fuses(fused.op, fused.attrs, types_of(graph, fused.inputs))) return;
  graph.nodes[std::size_t(loss)] = std::move(fused);
  for (const int node : {parts.topk, parts.seed, parts.backward}) {
    if (node >= 0) gone[std::size_t(node)] = true;
  }
}

}  // namespace

void fuse_classifier_loss(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op == "softmax_cross_entropy") try_fuse(graph, oracle, uses, int(n), gone);
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
