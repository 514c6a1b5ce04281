// SPDX-License-Identifier: Apache-2.0
//   log_softmax -> nll                      becomes  softmax_cross_entropy (loss_sum, logp)
//   nll_backward -> log_softmax_backward    becomes  softmax_cross_entropy_backward
// One pass over the scores forward and one backward; logp is what the backward pass reads, as
// before.
#include "graph/passes/pass.h"

namespace tr {
namespace {

Attrs take(const Attrs& from, std::initializer_list<const char*> names) {
  Attrs out;
  for (const char* name : names) out.set(name, from.values().find(std::string_view(name))->second);
  return out;
}

void try_forward(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int nll_index,
                 std::vector<bool>& gone) {
  LoweredNode& nll = graph.nodes[std::size_t(nll_index)];
  const int producer = uses.writer(nll.inputs[0]);
  if (producer < 0 || graph.nodes[std::size_t(producer)].op != "log_softmax") return;
  LoweredNode& softmax = graph.nodes[std::size_t(producer)];
  for (const int reader : uses.readers(softmax.outputs[0])) {
    if (reader < nll_index) return;  // somebody needs logp before the loss
  }
  const Attrs attrs = complete_attrs(OpRegistry::instance().get("softmax_cross_entropy"),
                                     take(nll.attrs, {"label_smoothing"}));
  const std::vector<TensorId> inputs = {softmax.inputs[0], nll.inputs[1]};
  if (!oracle.fuses("softmax_cross_entropy", attrs, types_of(graph, inputs))) return;
  nll.op = "softmax_cross_entropy";
  nll.attrs = attrs;
  nll.inputs = inputs;
  nll.outputs.push_back(softmax.outputs[0]);
  gone[std::size_t(producer)] = true;
}

void try_backward(LoweredGraph& graph, const KernelOracle& oracle, const Uses& uses, int nll_index,
                  std::vector<bool>& gone) {
  const LoweredNode nll = graph.nodes[std::size_t(nll_index)];
  const int reader = uses.sole_reader(nll.outputs[0]);
  if (reader < 0 || is_persistent(graph.tensor(nll.outputs[0]).role) ||
      graph.nodes[std::size_t(reader)].op != "log_softmax_backward")
    return;
  LoweredNode& softmax = graph.nodes[std::size_t(reader)];
  Attrs attrs = take(nll.attrs, {"label_smoothing"});
  attrs.set("dtype", softmax.attrs.str("dtype"));
  attrs = complete_attrs(OpRegistry::instance().get("softmax_cross_entropy_backward"), attrs);
  const std::vector<TensorId> inputs = {nll.inputs[0], softmax.inputs[1], nll.inputs[2]};
  if (!oracle.fuses("softmax_cross_entropy_backward", attrs, types_of(graph, inputs))) return;
  softmax.op = "softmax_cross_entropy_backward";
  softmax.attrs = attrs;
  softmax.inputs = inputs;
  gone[std::size_t(nll_index)] = true;
}

}  // namespace

void fuse_softmax_loss(LoweredGraph& graph, const KernelOracle& oracle) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op == "nll") try_forward(graph, oracle, uses, int(n), gone);
    if (graph.nodes[n].op == "nll_backward") try_backward(graph, oracle, uses, int(n), gone);
  }
  remove_nodes(graph, gone);
}

}  // namespace tr
