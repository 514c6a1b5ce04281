// SPDX-License-Identifier: Apache-2.0
//   conv -> bn_act                        becomes  conv_norm_act
//   bn_act_backward -> conv_dweight       becomes  conv_norm_act_backward
// Only both together, for a network's first convolution: its x needs no gradient, so nobody else
// reads the gradient in front of the norm, and where it has few channels its y is cheaper to make
// again than to keep.
#include <algorithm>

#include "graph/passes/pass.h"

namespace tr {
namespace {

/// The four nodes; dweight -1: they are not all there, or somebody else reads what lies between.
struct Parts {
  int conv = -1, norm = -1, gate = -1, dweight = -1;
};

Parts parts_of(const LoweredGraph& graph, const Uses& uses, int norm) {
  Parts parts{.norm = norm};
  const LoweredNode& act = graph.nodes[std::size_t(norm)];
  const TensorId x = act.inputs[0];
  parts.conv = uses.writer(x);
  if (parts.conv < 0 || is_persistent(graph.tensor(x).role)) return parts;
  const LoweredNode& conv = graph.nodes[std::size_t(parts.conv)];
  const bool plain = act.inputs.size() == 5 && act.attrs.str("activation") == "relu" &&
                     conv.op == "conv" && !conv.attrs.flag("bias");
  const auto& readers = uses.readers(x);
  if (!plain || readers.size() != 2) return parts;
  parts.gate = readers[0] == norm ? readers[1] : readers[0];
  const LoweredNode& gate = graph.nodes[std::size_t(parts.gate)];
  const bool same_norm = gate.op == "bn_act_backward" && gate.inputs.size() == 6 &&
                         gate.inputs[1] == x && gate.inputs[4] == act.outputs[1];
  if (!same_norm || is_persistent(graph.tensor(gate.outputs[0]).role)) return parts;
  const int reader = uses.sole_reader(gate.outputs[0]);
  if (reader < 0) return parts;
  const LoweredNode& dweight = graph.nodes[std::size_t(reader)];
  if (dweight.op != "conv_dweight" || dweight.inputs[0] != gate.outputs[0] ||
      dweight.inputs[1] != conv.inputs[0])
    return parts;
  // The norm's gradients come where the convolution's does: later than before.
  for (const std::size_t i : {1u, 2u}) {
    for (const int later : uses.readers(gate.outputs[i])) {
      if (later < reader) return parts;
    }
  }
  parts.dweight = reader;
  return parts;
}

/// The convolution's attributes and the norm's.
Attrs attrs_of(const LoweredNode& conv, const LoweredNode& act, const char* op) {
  Attrs attrs = conv.attrs;
  attrs.set("momentum", act.attrs.f64("momentum"));
  attrs.set("eps", act.attrs.f64("eps"));
  return complete_attrs(OpRegistry::instance().get(op), attrs);
}

void try_fuse(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int norm,
              std::vector<bool>& gone) {
  const Parts parts = parts_of(graph, uses, norm);
  if (parts.dweight < 0) return;
  const LoweredNode& conv = graph.nodes[std::size_t(parts.conv)];
  LoweredNode forward = graph.nodes[std::size_t(norm)];
  LoweredNode backward = graph.nodes[std::size_t(parts.dweight)];
  const LoweredNode& gate = graph.nodes[std::size_t(parts.gate)];
  forward.op = "conv_norm_act";
  forward.attrs = attrs_of(conv, graph.nodes[std::size_t(norm)], "conv_norm_act");
  forward.inputs[0] = conv.inputs[1];
  forward.inputs.insert(forward.inputs.begin(), conv.inputs[0]);
  backward.op = "conv_norm_act_backward";
  backward.attrs = attrs_of(conv, graph.nodes[std::size_t(norm)], "conv_norm_act_backward");
  backward.inputs = {gate.inputs[0], conv.inputs[0], conv.inputs[1], gate.inputs[2],
                     gate.inputs[3], gate.inputs[4], gate.inputs[5]};
  backward.outputs = {backward.outputs[0], gate.outputs[1], gate.outputs[2]};
  if (!oracle.fuses(forward.op, forward.attrs, types_of(graph, forward.inputs)) ||
      !oracle.fuses(backward.op, backward.attrs, types_of(graph, backward.inputs)))
    return;
  gone[std::size_t(parts.conv)] = gone[std::size_t(parts.gate)] = true;
  graph.nodes[std::size_t(norm)] = std::move(forward);
  graph.nodes[std::size_t(parts.dweight)] = std::move(backward);
}

}  // namespace

void fuse_first_norm(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op == "bn_act") try_fuse(graph, oracle, uses, int(n), gone);
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
