// SPDX-License-Identifier: Apache-2.0
//   bn_act_backward -> conv_dweight        becomes  bn_act_conv_dweight
//   bn_maxpool_backward -> conv_dweight    becomes  bn_maxpool_conv_dweight
// where nobody else reads the norm's dx: behind a network's first convolution, since nobody wants
// the gradient of the picture. The largest map of its backward pass is then never written.
#include <algorithm>

#include "graph/passes/pass.h"

namespace tr {
namespace {

/// Whether a node between the two reads a gradient of the norm, which would then come too late.
bool read_before(const Uses& uses, const LoweredNode& norm, int weight) {
  return std::any_of(norm.outputs.begin() + 1, norm.outputs.end(), [&](TensorId id) {
    const std::vector<int>& readers = uses.readers(id);
    return std::any_of(readers.begin(), readers.end(), [&](int n) { return n < weight; });
  });
}

/// Empty: the norm has no such form.
std::string fused_op(const LoweredNode& norm) {
  if (norm.op == "bn_maxpool_backward") return "bn_maxpool_conv_dweight";
  const bool plain = norm.op == "bn_act_backward" && norm.inputs.size() == 6 &&
                     norm.attrs.str("activation") == "relu";
  return plain ? "bn_act_conv_dweight" : "";
}

/// The norm's place, -1 if the two are not fused.
int try_fuse(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int index) {
  const LoweredNode& weight = graph.nodes[std::size_t(index)];
  const TensorId dx = weight.inputs[0];
  const int place = uses.writer(dx);
  if (place < 0 || uses.sole_reader(dx) != index || is_persistent(graph.tensor(dx).role)) return -1;
  const LoweredNode& norm = graph.nodes[std::size_t(place)];
  LoweredNode fused = weight;
  fused.op = fused_op(norm);
  if (fused.op.empty() || weight.outputs.size() != 1 || read_before(uses, norm, index)) return -1;
  if (fused.op == "bn_maxpool_conv_dweight") {
    for (const char* name : {"kernel", "stride", "padding"}) {
      fused.attrs.set(std::string("pool_") + name, norm.attrs.ints(name));
    }
    fused.attrs.set("pool_ceil_mode", norm.attrs.flag("ceil_mode"));
  }
  fused.inputs = norm.inputs;
  fused.inputs.push_back(weight.inputs[1]);
  fused.outputs = {weight.outputs[0], norm.outputs[1], norm.outputs[2]};
  if (!oracle.fuses(fused.op, fused.attrs, types_of(graph, fused.inputs))) return -1;
  graph.nodes[std::size_t(index)] = std::move(fused);
  return place;
}

}  // namespace

void fuse_first_gradient(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op != "conv_dweight") continue;
    const int place = try_fuse(graph, oracle, uses, int(n));
    if (place >= 0) gone[std::size_t(place)] = true;
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
