// SPDX-License-Identifier: Apache-2.0
//   fc -> act              becomes  fc(activation = act), where act alone reads fc's output
//   fc_dx -> act_backward  becomes  fc_dx(activation = act, gate = saved), where act_backward alone
//                                   reads dx
// Both save a pass over the feature map: the product's tile is still in the cache when act is
// applied. An output of the model stays: the host reads it too.
#include "graph/passes/pass.h"

namespace tr {
namespace {

constexpr std::string_view kBackward = "_backward";

/// An activation has at most one attribute, and that is called alpha.
bool only_alpha(const Attrs& attrs) {
  return attrs.values().empty() || (attrs.values().size() == 1 && attrs.contains("alpha"));
}

Attrs with_activation(const Attrs& attrs, const std::string& activation, const Attrs& of) {
  Attrs out = attrs;
  out.set("activation", activation);
  if (of.contains("alpha")) out.set("alpha", of.f64("alpha"));
  return out;
}

/// Moves `second`'s output to `first` and marks `second` for removal.
void absorb(LoweredNode& first, LoweredNode& second, Attrs attrs, std::vector<bool>& gone,
            int second_index) {
  first.attrs = std::move(attrs);
  first.outputs = second.outputs;
  gone[std::size_t(second_index)] = true;
}

void try_forward(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, LoweredNode& fc,
                 std::vector<bool>& gone) {
  const int reader = uses.sole_reader(fc.outputs[0]);
  if (reader < 0 || is_persistent(graph.tensor(fc.outputs[0]).role)) return;
  LoweredNode& act = graph.nodes[std::size_t(reader)];
  const bool is_activation =
      OpRegistry::instance().find(act.op + std::string(kBackward)) != nullptr &&
      OpRegistry::instance().get(act.op).elementwise && act.inputs.size() == 1;
  if (!is_activation || !only_alpha(act.attrs)) return;
  const Attrs fused = with_activation(fc.attrs, act.op, act.attrs);
  if (!oracle.fuses("fc", fused, types_of(graph, fc.inputs))) return;
  absorb(fc, act, fused, gone, reader);
}

void try_backward(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses,
                  LoweredNode& dx, std::vector<bool>& gone) {
  const int reader = uses.sole_reader(dx.outputs[0]);
  if (reader < 0 || is_persistent(graph.tensor(dx.outputs[0]).role)) return;
  LoweredNode& gate = graph.nodes[std::size_t(reader)];
  if (!gate.op.ends_with(kBackward) || gate.inputs.size() != 2 || gate.inputs[0] != dx.outputs[0])
    return;
  const std::string activation = gate.op.substr(0, gate.op.size() - kBackward.size());
  const OpDef* def = OpRegistry::instance().find(activation);
  if (def == nullptr || !def->elementwise || !only_alpha(gate.attrs)) return;
  const Attrs fused = with_activation(dx.attrs, activation, gate.attrs);
  std::vector<TensorId> inputs = {dx.inputs[0], dx.inputs[1], gate.inputs[1]};
  if (!oracle.fuses("fc_dx", fused, types_of(graph, inputs))) return;
  dx.inputs = std::move(inputs);
  absorb(dx, gate, fused, gone, reader);
}

}  // namespace

void fuse_fc_activation(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    LoweredNode& node = graph.nodes[n];
    if (gone[n] || !node.attrs.contains("activation") || !node.attrs.str("activation").empty())
      continue;
    if (node.op == "fc") try_forward(graph, oracle, uses, node, gone);
    if (node.op == "fc_dx") try_backward(graph, oracle, uses, node, gone);
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
