// SPDX-License-Identifier: Apache-2.0
//   conv_dx (1x1, stride s) -> bn_act_backward(more)    becomes
//   conv_dx (1x1, stride 1) -> bn_act_backward(more, more_stride = s)
// and likewise in front of bn_join_backward, where nobody else reads the gradient. A residual
// network's short way that halves the map reads one pixel of each four: the gradient of all others
// is zero. Only those pixels [N, OH, OW, C] are then multiplied, written and read, not the map.
#include <utility>

#include "graph/passes/pass.h"

namespace tr {
namespace {

const std::vector<std::int64_t> kOnes = {1, 1}, kZeros = {0, 0};

/// Place of input `more`, -1 if the op has none.
int place_of_more(const LoweredNode& node) {
  if (node.op == "bn_act_backward") return 6;
  return node.op == "bn_join_backward" ? 10 : -1;
}

/// The convolution's gradient that makes tensor `id` for `reader` alone, -1 if it is not of that
/// form.
int strided_writer(const LoweredGraph& graph, const Uses& uses, TensorId id, int reader) {
  const int writer = uses.writer(id);
  if (writer < 0 || uses.sole_reader(id) != reader || is_persistent(graph.tensor(id).role)) {
    return -1;
  }
  const LoweredNode& node = graph.nodes[std::size_t(writer)];
  const bool fits = node.op == "conv_dx" && node.attrs.ints("kernel") == kOnes &&
                    node.attrs.ints("padding") == kZeros && node.attrs.ints("stride") != kOnes;
  return fits ? writer : -1;
}

/// The gradient at the pixels that the convolution read.
LoweredTensor compact(const LoweredGraph& graph, const LoweredNode& conv) {
  LoweredTensor tensor = graph.tensor(conv.outputs[0]);
  const Shape &dx = tensor.type.shape, &dy = graph.tensor(conv.inputs[0]).type.shape;
  tensor.name = "compact(" + tensor.name + ")";
  tensor.type.shape = {dx[0], dy[1], dy[2], dx[3]};
  tensor.bytes = bytes_of(tensor.type);
  tensor.logical = kNoTensor;
  return tensor;
}

/// `index` is the norm's, `input` the place of the gradient: 0, or that of more, which it takes.
bool try_compact(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int index,
                 std::size_t input) {
  LoweredNode norm = graph.nodes[std::size_t(index)];
  const int writer = strided_writer(graph, uses, norm.inputs[input], index);
  if (writer < 0) return false;
  LoweredNode conv = graph.nodes[std::size_t(writer)];
  LoweredTensor gradient = compact(graph, conv);
  const auto more = std::size_t(place_of_more(norm));
  std::swap(norm.inputs[input], norm.inputs[more]);  // a sum: either may come first
  norm.attrs.set("more_stride", conv.attrs.ints("stride"));
  conv.attrs.set("stride", kOnes);
  std::vector<TensorType> norm_types = types_of(graph, norm.inputs);
  std::vector<TensorType> conv_types = types_of(graph, conv.inputs);
  norm_types[more] = conv_types[2] = gradient.type;
  if (!oracle.fuses(norm.op, norm.attrs, norm_types) ||
      !oracle.fuses(conv.op, conv.attrs, conv_types)) {
    return false;
  }
  norm.inputs[more] = conv.outputs[0] = TensorId(graph.tensors.size());
  conv.inputs[2] = kNoTensor;  // gave the type of the whole map
  graph.tensors.push_back(std::move(gradient));
  graph.nodes[std::size_t(index)] = std::move(norm);
  graph.nodes[std::size_t(writer)] = std::move(conv);
  return true;
}

}  // namespace

void compact_strided_gradient(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const LoweredNode& node = graph.nodes[n];
    const int more = place_of_more(node);
    if (more < 0 || node.inputs.size() <= std::size_t(more)) continue;
    if (node.inputs[std::size_t(more)] == kNoTensor) continue;
    for (const std::size_t input : {std::size_t(more), std::size_t(0)}) {
      if (try_compact(graph, oracle, uses, int(n), input)) break;
    }
  }
}

}  // namespace tr
