// SPDX-License-Identifier: Apache-2.0
//   bn_act -> maxpool                         becomes  bn_pool (windows of 2x2) or bn_maxpool
//   maxpool_backward -> bn_act_backward       becomes  bn_pool_backward or bn_maxpool_backward
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

/// The nodes that become two.
struct Parts {
  int norm = -1, pool = -1, unpool = -1, gate = -1;
};

/// gate -1: they are not all there, or somebody else reads what lies between them.
Parts parts_of(const LoweredGraph& graph, const Uses& uses, int pool) {
  Parts parts{.pool = pool};
  const LoweredNode& max = graph.nodes[std::size_t(pool)];
  const TensorId y = max.inputs[0];
  parts.norm = uses.writer(y);
  parts.unpool = uses.sole_reader(max.outputs[1]);
  if (parts.norm < 0 || parts.unpool < 0 || is_persistent(graph.tensor(y).role)) return parts;
  const LoweredNode& forward = graph.nodes[std::size_t(parts.norm)];
  const LoweredNode& unpool = graph.nodes[std::size_t(parts.unpool)];
  const bool plain = forward.op == "bn_act" && forward.inputs.size() == 5 &&
                     forward.attrs.str("activation") == "relu" && unpool.op == "maxpool_backward";
  // maxpool_backward reads the type of y.
  const auto part_of_it = [&](int reader) { return reader == pool || reader == parts.unpool; };
  const auto& readers = uses.readers(y);
  if (!plain || !std::all_of(readers.begin(), readers.end(), part_of_it)) return parts;
  const TensorId d = unpool.outputs[0];
  const int gate = uses.sole_reader(d);
  if (gate < 0 || is_persistent(graph.tensor(d).role)) return parts;
  const LoweredNode& backward = graph.nodes[std::size_t(gate)];
  const bool same_norm = backward.op == "bn_act_backward" && backward.inputs.size() == 6 &&
                         backward.inputs[0] == d && backward.inputs[4] == forward.outputs[1];
  if (same_norm) parts.gate = gate;
  return parts;
}

/// The fused nodes, with maxpool's index or one of two bits an element.
struct Fused {
  LoweredNode forward, backward;
  TensorType index;

  Fused(const LoweredGraph& graph, const Parts& parts, bool two_bits)
      : forward(graph.nodes[std::size_t(parts.norm)]),
        backward(graph.nodes[std::size_t(parts.gate)]) {
    const LoweredNode& max = graph.nodes[std::size_t(parts.pool)];
    Attrs norm, pool;
    norm.set("momentum", forward.attrs.f64("momentum"));
    norm.set("eps", forward.attrs.f64("eps"));
    for (Attrs* attrs : {&norm, &pool}) {
      if (two_bits) continue;
      for (const char* name : {"kernel", "stride", "padding"}) {
        attrs->set(name, max.attrs.ints(name));
      }
      attrs->set("ceil_mode", max.attrs.flag("ceil_mode"));
    }
    forward.op = two_bits ? "bn_pool" : "bn_maxpool";
    forward.attrs = complete_attrs(OpRegistry::instance().get(forward.op), norm);
    forward.outputs[0] = max.outputs[0];
    forward.outputs.push_back(max.outputs[1]);
    backward.op = forward.op + "_backward";
    backward.attrs = complete_attrs(OpRegistry::instance().get(backward.op), pool);
    backward.inputs[0] = graph.nodes[std::size_t(parts.unpool)].inputs[0];
    backward.inputs.push_back(max.outputs[1]);
    const TensorType& y = graph.tensor(max.outputs[0]).type;
    index = two_bits ? TensorType{Shape{(y.shape.num_elements() + 3) / 4}, DType::UINT8}
                     : TensorType{y.shape, DType::UINT8};
  }

  bool offered(const LoweredGraph& graph, const KernelOracle& oracle) const {
    std::vector<TensorType> types = types_of(graph, backward.inputs);
    types.back() = index;
    return oracle.fuses(backward.op, backward.attrs, types) &&
           oracle.fuses(forward.op, forward.attrs, types_of(graph, forward.inputs));
  }
};

void try_fuse(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int pool,
              std::vector<bool>& gone) {
  const Parts parts = parts_of(graph, uses, pool);
  if (parts.gate < 0) return;
  for (const bool two_bits : {true, false}) {
    if (two_bits && !halves(graph, graph.nodes[std::size_t(pool)])) continue;
    Fused fused(graph, parts, two_bits);
    if (!fused.offered(graph, oracle)) continue;
    LoweredTensor& index = graph.tensors[std::size_t(fused.forward.outputs[5])];
    index.type = fused.index;
    index.bytes = bytes_of(fused.index);
    gone[std::size_t(parts.norm)] = gone[std::size_t(parts.unpool)] = true;
    graph.nodes[std::size_t(parts.pool)] = std::move(fused.forward);
    graph.nodes[std::size_t(parts.gate)] = std::move(fused.backward);
    return;
  }
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
