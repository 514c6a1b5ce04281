// SPDX-License-Identifier: Apache-2.0
//   bn -> relu                             becomes  bn_act
//   bn -> add of r -> relu                 becomes  bn_act(residual = r)
//   bn -> bn_act(residual, mask)           becomes  bn_statistics -> bn_act, which normalises both
//   bn_eval in either place                becomes  bn_eval_act
//   relu_backward -> bn_backward           becomes  bn_act_backward: the mask comes from x
//   [add ->] relu_backward -> bn_backward  becomes  bn_act_backward(mask): behind a residual sum,
//                       \-> others                  dresidual is what the others read
//   bn_act_backward(mask) -> bn_backward   becomes  bn_join_backward, where nobody else reads
//                                          dresidual: the residual is a norm itself
// One pass over the feature map instead of two or three, each way; the rectifier's output is no
// longer kept for the backward pass, and one bit an element stands for it behind a sum.
#include <algorithm>

#include "graph/passes/pass.h"

namespace tr {
namespace {

/// A rectifier with what makes its input.
struct Join {
  int bn = -1, add = -1, relu = -1;
  TensorId residual = kNoTensor;
};

/// The nodes of its gradient; bn -1: they are not there in the form that can be fused.
struct JoinBackward {
  int add = -1, relu = -1, bn = -1;
};

bool is_norm(const LoweredNode& node) { return node.op == "bn" || node.op == "bn_eval"; }

/// Whether `reader` alone reads the tensor and nobody else may see it.
bool belongs_to(const LoweredGraph& graph, const Uses& uses, TensorId id, int reader) {
  return uses.sole_reader(id) == reader && !is_persistent(graph.tensor(id).role);
}

/// A sum of two feature maps of one type, without broadcasting.
bool is_plain_add(const LoweredGraph& graph, const LoweredNode& node) {
  return node.op == "add" && node.inputs[0] != node.inputs[1] &&
         graph.tensor(node.inputs[0]).type == graph.tensor(node.inputs[1]).type;
}

Join find_join(const LoweredGraph& graph, const Uses& uses, int relu) {
  Join join{.relu = relu};
  const TensorId in = graph.nodes[std::size_t(relu)].inputs[0];
  const int writer = uses.writer(in);
  if (writer < 0 || !belongs_to(graph, uses, in, relu)) return join;
  const LoweredNode& node = graph.nodes[std::size_t(writer)];
  if (is_norm(node)) join.bn = writer;
  if (!is_plain_add(graph, node)) return join;
  for (const std::size_t i : {0u, 1u}) {
    const int bn = uses.writer(node.inputs[i]);
    const bool fits = bn > join.bn && is_norm(graph.nodes[std::size_t(bn)]) &&
                      node.inputs[i] == graph.nodes[std::size_t(bn)].outputs[0] &&
                      belongs_to(graph, uses, node.inputs[i], writer);
    if (!fits) continue;
    join.bn = bn;  // the later of two: the other's output is there by then
    join.add = writer;
    join.residual = node.inputs[1 - i];
  }
  return join;
}

JoinBackward find_backward(const LoweredGraph& graph, const Uses& uses, const Join& join) {
  JoinBackward back;
  const TensorId y = graph.nodes[std::size_t(join.relu)].outputs[0];
  for (const int reader : uses.readers(y)) {
    const LoweredNode& node = graph.nodes[std::size_t(reader)];
    if (node.op != "relu_backward" || node.inputs[1] != y) continue;
    if (back.relu >= 0) return {};
    back.relu = reader;
  }
  if (back.relu < 0) return {};
  const LoweredNode& gate = graph.nodes[std::size_t(back.relu)];
  const TensorId d = gate.outputs[0];
  if (is_persistent(graph.tensor(d).role)) return {};
  const TensorId mean = graph.nodes[std::size_t(join.bn)].outputs[1];
  for (const int reader : uses.readers(d)) {
    const LoweredNode& node = graph.nodes[std::size_t(reader)];
    if (node.op == "bn_backward" && node.inputs[0] == d && node.inputs[3] == mean) back.bn = reader;
  }
  if (back.bn < 0 || (join.add < 0 && uses.readers(d).size() > 1)) return {};
  const int sum = uses.writer(gate.inputs[0]);
  if (join.add >= 0 && sum >= 0 && is_plain_add(graph, graph.nodes[std::size_t(sum)]) &&
      belongs_to(graph, uses, gate.inputs[0], back.relu)) {
    back.add = sum;
  }
  return back;
}

LoweredNode fused_forward(const LoweredGraph& graph, const Join& join, bool mask) {
  LoweredNode fused = graph.nodes[std::size_t(join.bn)];
  const bool trains = fused.op == "bn";
  Attrs attrs;
  attrs.set("momentum", fused.attrs.f64("momentum"));
  attrs.set("eps", fused.attrs.f64("eps"));
  attrs.set("activation", std::string("relu"));
  if (trains) attrs.set("mask", mask);
  fused.op = trains ? "bn_act" : "bn_eval_act";
  fused.attrs = complete_attrs(OpRegistry::instance().get(fused.op), attrs);
  fused.inputs.resize(5);
  if (join.add >= 0) fused.inputs.push_back(join.residual);
  fused.outputs[0] = graph.nodes[std::size_t(join.relu)].outputs[0];
  return fused;
}

/// `mask` is the forward pass's, where there is a residual sum.
LoweredNode fused_backward(const LoweredGraph& graph, const Join& join, const JoinBackward& back,
                           TensorId mask) {
  const LoweredNode& gate = graph.nodes[std::size_t(back.relu)];
  const LoweredNode& norm = graph.nodes[std::size_t(join.bn)];
  LoweredNode fused = graph.nodes[std::size_t(back.bn)];
  TensorId dy = gate.inputs[0], more = kNoTensor;
  if (back.add >= 0) {
    const LoweredNode& sum = graph.nodes[std::size_t(back.add)];
    dy = sum.inputs[0];
    more = sum.inputs[1];
  }
  Attrs attrs;
  attrs.set("activation", std::string("relu"));
  attrs.set("residual", join.add >= 0);
  fused.op = "bn_act_backward";
  fused.attrs = complete_attrs(OpRegistry::instance().get(fused.op), attrs);
  fused.inputs = {
      dy, norm.inputs[0], norm.inputs[1], norm.inputs[2], norm.outputs[1], norm.outputs[2]};
  if (join.add >= 0) {
    fused.inputs.push_back(more);
    fused.inputs.push_back(mask);
    fused.outputs.push_back(gate.outputs[0]);
  }
  return fused;
}

TensorId add_mask(LoweredGraph& graph, const LoweredNode& norm) {
  const LoweredTensor& x = graph.tensor(norm.inputs[0]);
  LoweredTensor mask;
  mask.name = "mask(" + norm.layer + ")";
  mask.type = {Shape{(x.type.shape.num_elements() + 7) / 8}, DType::UINT8};
  mask.bytes = bytes_of(mask.type);
  graph.tensors.push_back(std::move(mask));
  return TensorId(graph.tensors.size()) - 1;
}

/// Types of a node's inputs, with one more that is not made yet.
std::vector<TensorType> types_with_mask(const LoweredGraph& graph, const LoweredNode& node) {
  std::vector<TensorId> ids = node.inputs;
  const bool mask = !ids.empty() && ids.back() == TensorId(graph.tensors.size());
  if (mask) ids.pop_back();
  std::vector<TensorType> types = types_of(graph, ids);
  if (mask) {
    const std::int64_t elements = graph.tensor(node.inputs[1]).type.shape.num_elements();
    types.push_back({Shape{(elements + 7) / 8}, DType::UINT8});
  }
  return types;
}

void try_fuse(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int relu,
              std::vector<bool>& gone) {
  const Join join = find_join(graph, uses, relu);
  if (join.bn < 0) return;
  const bool trains = graph.nodes[std::size_t(join.bn)].op == "bn";
  JoinBackward back = trains ? find_backward(graph, uses, join) : JoinBackward{};
  const auto next = TensorId(graph.tensors.size());  // the mask, if it is made
  LoweredNode forward = fused_forward(graph, join, back.bn >= 0 && join.add >= 0);
  if (back.bn >= 0) {
    const LoweredNode backward = fused_backward(graph, join, back, next);
    const bool both = oracle.fuses(backward.op, backward.attrs, types_with_mask(graph, backward)) &&
                      oracle.fuses(forward.op, forward.attrs, types_of(graph, forward.inputs));
    if (!both) {
      back = {};
      forward = fused_forward(graph, join, false);
    }
  }
  if (!oracle.fuses(forward.op, forward.attrs, types_of(graph, forward.inputs))) return;
  if (back.bn >= 0) {
    LoweredNode backward = fused_backward(graph, join, back, next);
    if (join.add >= 0) forward.outputs.push_back(add_mask(graph, forward));
    for (const int node : {back.add, back.bn}) {
      if (node >= 0) gone[std::size_t(node)] = true;
    }
    graph.nodes[std::size_t(back.relu)] = std::move(backward);
  }
  graph.nodes[std::size_t(relu)] = std::move(forward);
  for (const int node : {join.bn, join.add}) {
    if (node >= 0) gone[std::size_t(node)] = true;
  }
}

/// The residual of a sum with a mask that is a norm itself: bn_act makes its y on the way.
void try_residual_norm(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses,
                       int join) {
  const LoweredNode& node = graph.nodes[std::size_t(join)];
  if (node.op != "bn_act" || !node.attrs.flag("mask") || node.inputs.size() != 6) return;
  const int writer = uses.writer(node.inputs[5]);
  if (writer < 0 || graph.nodes[std::size_t(writer)].op != "bn" ||
      !belongs_to(graph, uses, node.inputs[5], join))
    return;
  LoweredNode other = graph.nodes[std::size_t(writer)];
  LoweredNode fused = node;
  fused.inputs[5] = other.inputs[0];
  fused.inputs.insert(fused.inputs.end(), {kNoTensor, other.inputs[1], other.inputs[2],
                                           other.outputs[1], other.outputs[2]});
  Attrs attrs;
  attrs.set("momentum", other.attrs.f64("momentum"));
  attrs.set("eps", other.attrs.f64("eps"));
  other.op = "bn_statistics";
  other.attrs = complete_attrs(OpRegistry::instance().get(other.op), attrs);
  other.inputs = {other.inputs[0], other.inputs[3], other.inputs[4]};
  other.outputs.erase(other.outputs.begin());
  if (!oracle.fuses(other.op, other.attrs, types_of(graph, other.inputs)) ||
      !oracle.fuses(fused.op, fused.attrs, types_of(graph, fused.inputs)))
    return;
  graph.nodes[std::size_t(writer)] = std::move(other);
  graph.nodes[std::size_t(join)] = std::move(fused);
}

/// Both norms in front of a sum with a mask get their gradients together.
void try_join_gradients(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses,
                        int index, std::vector<bool>& gone) {
  const LoweredNode& node = graph.nodes[std::size_t(index)];
  if (node.op != "bn_act_backward" || !node.attrs.flag("residual")) return;
  const TensorId d = node.outputs[3];
  const int reader = uses.sole_reader(d);
  if (reader < 0 || is_persistent(graph.tensor(d).role)) return;
  const LoweredNode& other = graph.nodes[std::size_t(reader)];
  if (other.op != "bn_backward" || other.inputs[0] != d) return;
  LoweredNode fused = node;
  fused.op = "bn_join_backward";
  fused.attrs = complete_attrs(OpRegistry::instance().get(fused.op), {});
  fused.inputs = {node.inputs[0],  node.inputs[1],  node.inputs[2],  node.inputs[4],
                  node.inputs[5],  node.inputs[7],  other.inputs[1], other.inputs[2],
                  other.inputs[3], other.inputs[4], node.inputs[6]};
  if (fused.inputs.back() == kNoTensor) fused.inputs.pop_back();
  fused.outputs = {node.outputs[0],  node.outputs[1],  node.outputs[2],
                   other.outputs[0], other.outputs[1], other.outputs[2]};
  if (!oracle.fuses(fused.op, fused.attrs, types_of(graph, fused.inputs))) return;
  gone[std::size_t(reader)] = true;
  graph.nodes[std::size_t(index)] = std::move(fused);
}

}  // namespace

void fuse_batch_norm(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op == "relu") try_fuse(graph, oracle, uses, int(n), gone);
  }
  remove_nodes(graph, gone);
  const Uses rebuilt(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    try_residual_norm(graph, oracle, rebuilt, int(n));
  }
  gone.assign(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    try_join_gradients(graph, oracle, rebuilt, int(n), gone);
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
