// SPDX-License-Identifier: Apache-2.0
//   fc(activation = relu) -> y, fc_dx(gate = y)  becomes  fc_marked -> y, mask, fc_dx(gate = mask)
// A product of the library drops by bits in its epilogue, and other kernels read a sixteenth of
// what y has; fc's pass over y makes the bits on the way. Only where y is larger than the caches:
// smaller products have kernels that read y as cheaply.
#include "graph/passes/pass.h"

namespace tr {
namespace {

constexpr std::int64_t kLeastBytes = std::int64_t{32} << 20;  // of y
constexpr std::int64_t kColumns = 128;                        // a mask's rows are whole 16 bytes

bool is_large_relu(const LoweredGraph& graph, const LoweredNode& node) {
  if (node.op != "fc" || node.attrs.str("activation") != "relu" || node.outputs.size() != 1)
    return false;
  const TensorType& y = graph.tensor(node.outputs[0]).type;
  return size_of(y.dtype) == 2 && y.shape.back() % kColumns == 0 && bytes_of(y) >= kLeastBytes;
}

/// Gives the backward products of `fc`, node `index`, its mask where both have a kernel.
void try_share(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int index) {
  LoweredNode marked = graph.nodes[std::size_t(index)];
  const TensorId y = marked.outputs[0];
  const TensorType& type = graph.tensor(y).type;
  LoweredTensor mask;
  mask.name = "mask(" + marked.layer + ")";
  mask.type = {type.shape.with_dim(type.shape.rank() - 1, type.shape.back() / 8), DType::UINT8};
  mask.bytes = bytes_of(mask.type);
  const auto id = TensorId(graph.tensors.size());
  marked.op = "fc_marked";
  marked.outputs.push_back(id);
  if (!oracle.fuses(marked.op, marked.attrs, types_of(graph, marked.inputs))) return;
  bool shared = false;
  for (const int reader : uses.readers(y)) {
    LoweredNode& node = graph.nodes[std::size_t(reader)];
    const bool gated = node.op == "fc_dx" && node.attrs.str("activation") == "relu" &&
                       node.inputs[2] == y && node.inputs[0] != y;
    if (!gated) continue;
    std::vector<TensorType> types = types_of(graph, node.inputs);
    types[2] = mask.type;
    if (!oracle.fuses(node.op, node.attrs, types)) continue;
    node.inputs[2] = id;
    shared = true;
  }
  if (!shared) return;
  graph.tensors.push_back(std::move(mask));
  graph.nodes[std::size_t(index)] = std::move(marked);
}

}  // namespace

void share_relu_mask(LoweredGraph& graph, const KernelOracle& oracle) {
  if (oracle.device() != DeviceKind::CUDA) return;
  const Uses uses(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (is_large_relu(graph, graph.nodes[n])) try_share(graph, oracle, uses, int(n));
  }
}

}  // namespace tr
