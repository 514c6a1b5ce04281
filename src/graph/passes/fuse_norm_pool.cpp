// SPDX-License-Identifier: Apache-2.0
//   bn_act -> maxpool(2)                      becomes  bn_pool
//   maxpool_backward -> bn_act_backward       becomes  bn_pool_backward
// Only both together, where nobody else reads what lies between: neither the feature map in front
// of the pooling nor its gradient is then ever written.
#include <algorithm>

#include "graph/passes/pass.h"

namespace tr {
namespace {

bool halves(const LoweredGraph& graph, const LoweredNode& pool) {
  const std::vector<std::int64_t> two = {2, 2}, zero = {0, 0};
  const Shape& x = graph.tensor(pool.inputs[0]).type.shape;
  return pool.attrs.ints("kernel") == two && pool.attrs.ints("stride") == two &&
         pool.attrs.ints("padding") == zero && x[1] % 2 == 0 && x[2] % 2 == 0;
}

void try_fuse(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int pool,
              std::vector<bool>& gone) {
  const LoweredNode& max = graph.nodes[std::size_t(pool)];
  const TensorId y = max.inputs[0];
  const int norm = uses.writer(y), back = uses.sole_reader(max.outputs[1]);
  if (norm < 0 || back < 0 || !halves(graph, max) || is_persistent(graph.tensor(y).role)) return;
  const LoweredNode& forward = graph.nodes[std::size_t(norm)];
  const LoweredNode& unpool = graph.nodes[std::size_t(back)];
  const bool plain = forward.op == "bn_act" && forward.inputs.size() == 5 &&
                     forward.attrs.str("activation") == "relu" && unpool.op == "maxpool_backward";
  // maxpool_backward reads the type of y.
  const auto part_of_it = [&](int reader) { return reader == pool || reader == back; };
  const auto& readers = uses.readers(y);
  if (!plain || !std::all_of(readers.begin(), readers.end(), part_of_it)) return;
  const TensorId d = unpool.outputs[0];
  const int gate = uses.sole_reader(d);
  if (gate < 0 || is_persistent(graph.tensor(d).role)) return;
  const LoweredNode& backward = graph.nodes[std::size_t(gate)];
  const bool same_norm = backward.op == "bn_act_backward" && backward.inputs.size() == 6 &&
                         backward.inputs[0] == d && backward.inputs[4] == forward.outputs[1];
  if (!same_norm) return;

  LoweredNode fused = forward;
  fused.op = "bn_pool";
  fused.attrs = {};
  fused.attrs.set("momentum", forward.attrs.f64("momentum"));
  fused.attrs.set("eps", forward.attrs.f64("eps"));
  fused.attrs = complete_attrs(OpRegistry::instance().get(fused.op), fused.attrs);
  fused.outputs[0] = max.outputs[0];
  fused.outputs.push_back(max.outputs[1]);
  LoweredNode fused_back = backward;
  fused_back.op = "bn_pool_backward";
  fused_back.attrs = {};
  fused_back.inputs[0] = unpool.inputs[0];
  fused_back.inputs.push_back(max.outputs[1]);
  // Two bits an element instead of a byte.
  const TensorType index = {Shape{(graph.tensor(max.outputs[0]).type.shape.num_elements() + 3) / 4},
                            DType::UINT8};
  std::vector<TensorType> types = types_of(graph, fused_back.inputs);
  types.back() = index;
  if (!oracle.fuses(fused_back.op, fused_back.attrs, types) ||
      !oracle.fuses(fused.op, fused.attrs, types_of(graph, fused.inputs)))
    return;
  LoweredTensor& bits = graph.tensors[std::size_t(max.outputs[1])];
  bits.type = index;
  bits.bytes = bytes_of(index);
  gone[std::size_t(norm)] = gone[std::size_t(back)] = true;
  graph.nodes[std::size_t(pool)] = std::move(fused);
  graph.nodes[std::size_t(gate)] = std::move(fused_back);
}

}  // namespace

void fuse_norm_pool(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op == "maxpool") try_fuse(graph, oracle, uses, int(n), gone);
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
