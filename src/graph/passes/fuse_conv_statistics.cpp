// SPDX-License-Identifier: Apache-2.0
//   conv -> bn, bn_act, bn_pool or bn_maxpool    becomes  conv_statistics -> the same(statistics)
// The convolution sums its output and the squares of it while the tile is still in registers: batch
// norm needs no pass of its own over the feature map. Where the library has no such engine for a
// shape, the pass leaves it as it is.
#include <algorithm>

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
  const std::size_t place = fused.op == "bn_act" ? 6 : fused.op == "bn_statistics" ? 3 : 5;
  if (fused.inputs.size() <= place) fused.inputs.resize(place + 1, kNoTensor);
  fused.inputs[place] = statistics;
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
  const auto statistics = TensorId(graph.tensors.size());
  LoweredNode fused = with_statistics(norm, statistics);
  const auto place = std::find(fused.inputs.begin(), fused.inputs.end(), statistics);
  std::vector<TensorId> known = fused.inputs;
  known[std::size_t(place - fused.inputs.begin())] = kNoTensor;  // it is not made yet
  std::vector<TensorType> types = types_of(graph, known);
  types[std::size_t(place - fused.inputs.begin())] = sums.type;
  if (!oracle.fuses(fused.op, fused.attrs, types) ||
      !oracle.fuses(summing.op, summing.attrs, types_of(graph, summing.inputs)))
    return;
  graph.tensors.push_back(std::move(sums));
  summing.outputs.push_back(statistics);
  graph.nodes[std::size_t(writer)] = std::move(summing);
  graph.nodes[std::size_t(index)] = std::move(fused);
}

}  // namespace

void fuse_conv_statistics(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const std::string& op = graph.nodes[n].op;
    for (const char* norm : {"bn", "bn_act", "bn_pool", "bn_maxpool", "bn_statistics"}) {
      if (op == norm) {
        try_fuse(graph, oracle, uses, int(n));
        break;
      }
    }
  }
}

}  // namespace tr
