// SPDX-License-Identifier: Apache-2.0
//   conv -> bn_act                         becomes  conv_bn_act
//   bn_act_backward -> conv_dweight        becomes  conv_bn_act_dweight, of the same two layers
//   bn_maxpool_backward -> conv_dweight    becomes  bn_maxpool_conv_dweight
// where nobody else reads the norm's dx: behind a network's first convolution, since nobody wants
// the gradient of the picture. The largest map of its backward pass is then never written; of the
// first two, neither is the convolution's own result.
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

TensorId add_tensor(LoweredGraph& graph, std::string name, const TensorType& type) {
  LoweredTensor tensor;
  tensor.name = std::move(name);
  tensor.type = type;
  tensor.bytes = bytes_of(type);
  graph.tensors.push_back(std::move(tensor));
  return TensorId(graph.tensors.size()) - 1;
}

/// The nodes of a first convolution and of the norm behind it, both ways.
struct Block {
  int conv, norm, norm_backward, weight;
};

/// The convolution and the norm whose gradients those two are; conv -1: they are not there in the
/// form that can be fused.
Block find_block(const LoweredGraph& graph, const Uses& uses, int norm_backward, int weight) {
  const Block none{-1, -1, norm_backward, weight};
  const LoweredNode& back = graph.nodes[std::size_t(norm_backward)];
  if (back.op != "bn_act_backward" || back.inputs.size() != 6 ||
      back.attrs.str("activation") != "relu")
    return none;
  const TensorId x = back.inputs[1];
  const Block block{uses.writer(x), uses.writer(back.inputs[4]), norm_backward, weight};
  if (block.conv < 0 || block.norm < 0 || is_persistent(graph.tensor(x).role)) return none;
  const LoweredNode& conv = graph.nodes[std::size_t(block.conv)];
  const LoweredNode& norm = graph.nodes[std::size_t(block.norm)];
  const bool plain = conv.op == "conv" && !conv.attrs.flag("bias") && norm.op == "bn_act" &&
                     norm.inputs.size() == 5 && norm.attrs.str("activation") == "relu";
  if (!plain || norm.inputs[0] != x ||
      conv.inputs[0] != graph.nodes[std::size_t(weight)].inputs[1] ||
      uses.readers(x) != std::vector<int>{block.norm, norm_backward})
    return none;
  return block;
}

bool try_block(LoweredGraph& graph, const KernelOracle& oracle, const Block& block) {
  const LoweredNode& conv = graph.nodes[std::size_t(block.conv)];
  const LoweredNode& norm = graph.nodes[std::size_t(block.norm)];
  const LoweredNode& back = graph.nodes[std::size_t(block.norm_backward)];
  LoweredNode forward = conv, weight = graph.nodes[std::size_t(block.weight)];
  forward.op = "conv_bn_act";
  forward.attrs.set("momentum", norm.attrs.f64("momentum"));
  forward.attrs.set("eps", norm.attrs.f64("eps"));
  forward.inputs = {conv.inputs[0], conv.inputs[1], norm.inputs[1],
                    norm.inputs[2], norm.inputs[3], norm.inputs[4]};
  const std::vector<TensorType> in = types_of(graph, forward.inputs);
  if (!oracle.fuses(forward.op, forward.attrs, in)) return false;
  const OpDef& def = OpRegistry::instance().get(forward.op);
  const std::vector<TensorType> out = def.infer(complete_attrs(def, forward.attrs), in);
  weight.op = "conv_bn_act_dweight";
  std::vector<TensorType> gradient_in = {out[0], out[5], in[2], out[1],
                                         out[2], out[6], in[1], in[0]};
  if (!oracle.fuses(weight.op, weight.attrs, gradient_in)) return false;
  forward.outputs = norm.outputs;
  const TensorId mask = add_tensor(graph, "mask(" + norm.layer + ")", out[5]);
  const TensorId moments = add_tensor(graph, "moments(" + conv.layer + ")", out[6]);
  forward.outputs.insert(forward.outputs.end(), {mask, moments});
  weight.inputs = {back.inputs[0], mask,    back.inputs[2], back.inputs[4],
                   back.inputs[5], moments, conv.inputs[1], conv.inputs[0]};
  weight.outputs = {weight.outputs[0], back.outputs[1], back.outputs[2]};
  graph.nodes[std::size_t(block.norm)] = std::move(forward);
  graph.nodes[std::size_t(block.weight)] = std::move(weight);
  return true;
}

bool try_pooled(LoweredGraph& graph, const KernelOracle& oracle, const LoweredNode& norm,
                int index) {
  if (norm.op != "bn_maxpool_backward") return false;
  LoweredNode fused = graph.nodes[std::size_t(index)];
  fused.op = "bn_maxpool_conv_dweight";
  for (const char* name : {"kernel", "stride", "padding"}) {
    fused.attrs.set(std::string("pool_") + name, norm.attrs.ints(name));
  }
  fused.attrs.set("pool_ceil_mode", norm.attrs.flag("ceil_mode"));
  fused.inputs = norm.inputs;
  fused.inputs.push_back(graph.nodes[std::size_t(index)].inputs[1]);
  fused.outputs = {fused.outputs[0], norm.outputs[1], norm.outputs[2]};
  if (!oracle.fuses(fused.op, fused.attrs, types_of(graph, fused.inputs))) return false;
  graph.nodes[std::size_t(index)] = std::move(fused);
  return true;
}

void try_fuse(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int index,
              std::vector<bool>& gone) {
  const LoweredNode& weight = graph.nodes[std::size_t(index)];
  const TensorId dx = weight.inputs[0];
  const int place = uses.writer(dx);
  if (place < 0 || uses.sole_reader(dx) != index || is_persistent(graph.tensor(dx).role)) return;
  const LoweredNode& norm = graph.nodes[std::size_t(place)];
  if (weight.outputs.size() != 1 || read_before(uses, norm, index)) return;
  const Block block = find_block(graph, uses, place, index);
  if (block.conv >= 0 && try_block(graph, oracle, block)) {
    gone[std::size_t(block.conv)] = gone[std::size_t(place)] = true;
  } else if (try_pooled(graph, oracle, norm, index)) {
    gone[std::size_t(place)] = true;
  }
}

}  // namespace

void fuse_first_conv(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op == "conv_dweight") try_fuse(graph, oracle, uses, int(n), gone);
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
