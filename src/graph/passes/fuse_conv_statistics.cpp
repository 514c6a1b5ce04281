// SPDX-License-Identifier: Apache-2.0
//   conv -> bn, bn_act, bn_pool or bn_maxpool    becomes  conv_statistics -> the same(statistics)
// The convolution sums its output and the squares of it while the tile is still in registers: batch
// norm needs no pass of its own over the feature map. Where the library has no such engine for a
// shape, the pass leaves it as it is.
#include "graph/passes/pass.h"

namespace tr {
namespace {

/// The norm with a place for statistics as its last input.
LoweredNode with_statistics(const LoweredNode& norm, TensorId statistics) {
  LoweredNode fused = norm;
  if (norm.op == "bn") {
    fused.op = "bn_act";
    fused.attrs = {};
    fused.attrs.set("momentum", norm.attrs.f64("momentum"));
    fused.attrs.set("eps", norm.attrs.f64("eps"));
    fused.attrs = complete_attrs(OpRegistry::instance().get(fused.op), fused.attrs);
  }
  fused.inputs.resize(fused.op == "bn_act" ? 6 : 5, kNoTensor);  // bn_act: residual comes first
  fused.inputs.push_back(statistics);
  return fused;
}

void try_fuse(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int index) {
  const LoweredNode& norm = graph.nodes[std::size_t(index)];
  const int writer = uses.writer(norm.inputs[0]);
  if (writer < 0 || graph.nodes[std::size_t(writer)].op != "conv") return;
  const LoweredNode& conv = graph.nodes[std::size_t(writer)];
  if (conv.inputs.size() > 2 && conv.inputs[2] != kNoTensor) return;  // a bias comes after the sums
  LoweredNode summing = conv;
  summing.op = "conv_statistics";
  summing.inputs.resize(2);
  LoweredTensor sums;
  sums.name = "statistics(" + norm.layer + ")";
  sums.type = {Shape{2, graph.tensor(norm.inputs[0]).type.shape.back()}, DType::FP32};
  sums.bytes = bytes_of(sums.type);
  LoweredNode fused = with_statistics(norm, TensorId(graph.tensors.size()));
  std::vector<TensorId> known = fused.inputs;
  known.pop_back();
  std::vector<TensorType> types = types_of(graph, known);
  types.push_back(sums.type);
  if (!oracle.fuses(fused.op, fused.attrs, types) ||
      !oracle.fuses(summing.op, summing.attrs, types_of(graph, summing.inputs)))
    return;
  graph.tensors.push_back(std::move(sums));
  summing.outputs.push_back(fused.inputs.back());
  graph.nodes[std::size_t(writer)] = std::move(summing);
  graph.nodes[std::size_t(index)] = std::move(fused);
}

}  // namespace

void fuse_conv_statistics(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const std::string& op = graph.nodes[n].op;
    if (op == "bn" || op == "bn_act" || op == "bn_pool" || op == "bn_maxpool") {
      try_fuse(graph, oracle, uses, int(n));
    }
  }
}

}  // namespace tr
