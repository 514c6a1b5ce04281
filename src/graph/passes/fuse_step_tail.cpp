// SPDX-License-Identifier: Apache-2.0
//   record_step [, update_loss_scale], advance_counters                becomes  finish_step
//   fc_dweight of every parameter, finite_check, sgd or adam           becomes  fc_update
// The second one only where nothing else touches the gradients: no accumulation, no communication.
#include <algorithm>

#include "graph/passes/pass.h"

namespace tr {
namespace {

/// Number of the only node with that op; -1: there is none, or several.
int only_node(const LoweredGraph& graph, std::string_view op) {
  int found = -1;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op != op) continue;
    if (found >= 0) return -1;
    found = int(n);
  }
  return found;
}

bool has_op(const LoweredGraph& graph, std::string_view op) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const LoweredNode& node) { return node.op == op; });
}

/// Inputs that the op writes and the node has.
std::vector<int> present_states(const LoweredNode& node) {
  std::vector<int> states;
  for (const int state : OpRegistry::instance().get(node.op).state_writes) {
    if (std::size_t(state) < node.inputs.size() && node.inputs[std::size_t(state)] != kNoTensor)
      states.push_back(state);
  }
  return states;
}

/// fc_dweight nodes in order, if they alone write gradients and nobody but the check and the
/// optimizer reads them; else none.
std::vector<int> sole_gradient_writers(const LoweredGraph& graph, const Uses& uses) {
  std::vector<int> writers;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const LoweredNode& node = graph.nodes[n];
    const bool writes = std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId id) {
      return id != kNoTensor && graph.tensor(id).role == Role::GRADIENT;
    });
    if (!writes) continue;
    if (node.op != "fc_dweight") return {};
    for (const TensorId id : node.outputs) {
      const LoweredTensor& gradient = graph.tensor(id);
      if (gradient.role != Role::GRADIENT || !uses.readers(id).empty()) return {};
    }
    writers.push_back(int(n));
  }
  return writers;
}

/// Places of an optimizer's inputs (src/ops/optimizer.cpp) and of fc_update's.
enum OptimizerInput : std::size_t { FOUND_INF = 6, FIRST_MOMENT = 8 };
constexpr std::size_t kCommonInputs = 6;  // weights .. loss_scale, the same in both

LoweredNode fused_update(const LoweredGraph& graph, const LoweredNode& optimizer,
                         const LoweredNode& check, const std::vector<int>& writers) {
  LoweredNode fused = optimizer;
  fused.op = "fc_update";
  fused.attrs = optimizer.attrs;
  fused.attrs.set("optimizer", optimizer.op);
  fused.inputs.assign(optimizer.inputs.begin(), optimizer.inputs.begin() + kCommonInputs);
  const std::size_t moments = optimizer.op == "adam" ? 2 : 1;
  const auto input = [&](std::size_t i) {
    return i < optimizer.inputs.size() ? optimizer.inputs[i] : kNoTensor;
  };
  fused.inputs.push_back(input(FIRST_MOMENT));
  fused.inputs.push_back(moments > 1 ? input(FIRST_MOMENT + 1) : kNoTensor);
  fused.inputs.push_back(input(FIRST_MOMENT + moments));
  fused.outputs = check.outputs;
  std::vector<std::int64_t> biases;
  for (const int n : writers) {
    const LoweredNode& dweight = graph.nodes[std::size_t(n)];
    fused.inputs.push_back(dweight.inputs[0]);
    fused.inputs.push_back(dweight.inputs[1]);
    fused.outputs.insert(fused.outputs.end(), dweight.outputs.begin(), dweight.outputs.end());
    biases.push_back(dweight.outputs.size() > 1 ? 1 : 0);
  }
  fused.attrs.set("biases", biases);
  return fused;
}

void fuse_update(LoweredGraph& graph, const KernelOracle& oracle) {
  const int check = only_node(graph, "finite_check");
  const int optimizer = std::max(only_node(graph, "adam"), only_node(graph, "sgd"));
  const bool alone =
      !has_op(graph, "accumulate_grads") && !has_op(graph, "all_reduce") && check >= 0;
  if (!alone || optimizer < check) return;
  const LoweredNode& update = graph.nodes[std::size_t(optimizer)];
  const LoweredNode& verdict = graph.nodes[std::size_t(check)];
  if (update.inputs[FOUND_INF] != verdict.outputs[0]) return;
  const Uses uses(graph);
  for (const TensorId id : verdict.outputs) {
    const auto& readers = uses.readers(id);
    if (!readers.empty() && readers.front() < optimizer) return;
  }
  const std::vector<int> writers = sole_gradient_writers(graph, uses);
  if (writers.empty()) return;
  LoweredNode fused = fused_update(graph, update, verdict, writers);
  fused.attrs = complete_attrs(OpRegistry::instance().get(fused.op), fused.attrs);
  if (!oracle.fuses(fused.op, fused.attrs, types_of(graph, fused.inputs))) return;
  fused.state_writes = present_states(fused);
  graph.nodes[std::size_t(optimizer)] = std::move(fused);
  std::vector<bool> gone(graph.nodes.size(), false);
  gone[std::size_t(check)] = true;
  for (const int n : writers) gone[std::size_t(n)] = true;
  remove_nodes(graph, gone);
}

void fuse_records(LoweredGraph& graph, const KernelOracle& oracle) {
  const int record = only_node(graph, "record_step");
  const int advance = only_node(graph, "advance_counters");
  const int scale = only_node(graph, "update_loss_scale");
  const bool in_order = record >= 0 && record < advance && scale < advance;
  if (!in_order) return;
  const LoweredNode& tail = graph.nodes[std::size_t(advance)];
  LoweredNode fused = graph.nodes[std::size_t(record)];
  if (tail.inputs[0] != fused.inputs[1]) return;
  const bool has_scale = fused.inputs.size() > 6 && fused.inputs[6] != kNoTensor;
  const bool updates = tail.inputs.size() > 1 && tail.inputs[1] != kNoTensor;
  if (scale >= 0 && !has_scale) return;
  if (updates && (fused.inputs.size() < 5 || fused.inputs[4] != tail.inputs[1])) return;
  fused.op = "finish_step";
  fused.attrs = {};
  fused.attrs.set("scaling", scale >= 0);
  if (scale >= 0) {
    fused.attrs.set("growth_interval",
                    graph.nodes[std::size_t(scale)].attrs.i64("growth_interval"));
  }
  fused.attrs.set("last_micro", tail.attrs.flag("last_micro"));
  fused.attrs.set("training", tail.attrs.flag("training"));
  fused.attrs = complete_attrs(OpRegistry::instance().get(fused.op), fused.attrs);
  if (!oracle.fuses(fused.op, fused.attrs, types_of(graph, fused.inputs))) return;
  fused.label = tail.label;
  fused.state_writes = present_states(fused);
  graph.nodes[std::size_t(advance)] = std::move(fused);
  std::vector<bool> gone(graph.nodes.size(), false);
  gone[std::size_t(record)] = true;
  if (scale >= 0) gone[std::size_t(scale)] = true;
  remove_nodes(graph, gone);
}

}  // namespace

void fuse_step_tail(LoweredGraph& graph, const KernelOracle& oracle) {
  fuse_update(graph, oracle);
  fuse_records(graph, oracle);
}

}  // namespace tr
