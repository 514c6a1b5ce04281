// SPDX-License-Identifier: Apache-2.0
//   record_step [, update_loss_scale], advance_counters                becomes  finish_step
//   fc_dweight of every parameter, finite_check, sgd or adam           becomes  fc_update
// The second one only where nothing else touches the gradients: no accumulation, no communication.
// Bytes of the gradients mean nothing afterwards.
#include <algorithm>
#include <set>

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

/// The node's input, kNoTensor if it has none there.
TensorId input_of(const LoweredNode& node, std::size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNoTensor;
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

/// Whether a node beside those two reads or writes the range of gradients, or a part of it.
bool others_use_gradients(const LoweredGraph& graph, int check, int optimizer) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (int(n) == check || int(n) == optimizer) continue;
    for (const TensorId id : graph.nodes[n].inputs) {
      if (id != kNoTensor && graph.tensor(id).range_role == int(Role::GRADIENT)) return true;
    }
  }
  return false;
}

/// Whether every parameter that the graph has is among those whose gradient the nodes write. The
/// optimizer moves the others too, by their decay.
bool write_all_gradients(const LoweredGraph& graph, const std::vector<int>& writers) {
  std::set<int> written, all;
  for (const int n : writers) {
    for (const TensorId id : graph.nodes[std::size_t(n)].outputs) {
      written.insert(graph.tensor(id).param);
    }
  }
  for (const LoweredTensor& tensor : graph.tensors) {
    const bool weight = tensor.role == Role::WEIGHT || tensor.role == Role::WEIGHT_CAST;
    if (weight && tensor.param >= 0) all.insert(tensor.param);
  }
  return written == all;
}

/// fc_dweight nodes in order, if they alone write gradients and nobody reads a single one; else
/// none.
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
enum OptimizerInput : std::size_t { FOUND_INF = 6, GRAD_SUMSQ, FIRST_MOMENT };
constexpr std::size_t kCommonInputs = 6;  // weights .. loss_scale, the same in both

LoweredNode fused_update(const LoweredGraph& graph, const LoweredNode& optimizer,
                         const LoweredNode& check, const std::vector<int>& writers) {
  LoweredNode fused = optimizer;
  fused.op = "fc_update";
  fused.attrs = optimizer.attrs;
  fused.attrs.set("optimizer", optimizer.op);
  fused.inputs.assign(optimizer.inputs.begin(), optimizer.inputs.begin() + kCommonInputs);
  const std::size_t moments = optimizer.op == "adam" ? 2 : 1;
  fused.inputs.push_back(input_of(optimizer, FIRST_MOMENT));
  fused.inputs.push_back(moments > 1 ? input_of(optimizer, FIRST_MOMENT + 1) : kNoTensor);
  fused.inputs.push_back(input_of(optimizer, FIRST_MOMENT + moments));
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
  if (check < 0 || optimizer < check || others_use_gradients(graph, check, optimizer)) return;
  const LoweredNode& update = graph.nodes[std::size_t(optimizer)];
  const LoweredNode& verdict = graph.nodes[std::size_t(check)];
  const bool judged = update.inputs[FOUND_INF] == verdict.outputs[0] &&
                      update.inputs[GRAD_SUMSQ] == verdict.outputs[1];
  if (!judged) return;
  const Uses uses(graph);
  for (const TensorId id : verdict.outputs) {
    const auto& readers = uses.readers(id);
    if (!readers.empty() && readers.front() < optimizer) return;
  }
  const std::vector<int> writers = sole_gradient_writers(graph, uses);
  if (writers.empty() || !write_all_gradients(graph, writers)) return;
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

/// Places of record_step's inputs (src/ops/step.cpp) and of finish_step's.
enum RecordInput : std::size_t { COUNTERS = 1, RECORDED_INF = 4, RECORDED_SCALE = 6 };

/// The nodes of a step's end, one after the other: record, the loss scale where there is one (-1),
/// the counters.
struct Records {
  int record, scale, advance;

  explicit Records(const LoweredGraph& graph)
      : record(only_node(graph, "record_step")),
        scale(only_node(graph, "update_loss_scale")),
        advance(only_node(graph, "advance_counters")) {}

  /// Whether they are all there, with nothing between them, and speak of the same tensors.
  bool belong_together(const LoweredGraph& graph) const {
    const int between = scale >= 0 ? 1 : 0;
    const bool in_order =
        record >= 0 && advance == record + between + 1 && (scale < 0 || scale == record + 1);
    if (!in_order) return false;
    const LoweredNode& first = graph.nodes[std::size_t(record)];
    const LoweredNode& last = graph.nodes[std::size_t(advance)];
    const TensorId counters = first.inputs[COUNTERS], found_inf = input_of(first, RECORDED_INF);
    const bool judges = last.attrs.flag("training") && last.attrs.flag("last_micro");
    if (last.inputs[0] != counters) return false;
    if (judges && input_of(last, 1) != found_inf) return false;
    if (scale < 0) return true;
    const LoweredNode& middle = graph.nodes[std::size_t(scale)];
    return found_inf != kNoTensor &&
           middle.inputs ==
               std::vector<TensorId>{input_of(first, RECORDED_SCALE), found_inf, counters};
  }
};

void fuse_records(LoweredGraph& graph, const KernelOracle& oracle) {
  const Records nodes(graph);
  if (!nodes.belong_together(graph)) return;
  const LoweredNode& tail = graph.nodes[std::size_t(nodes.advance)];
  LoweredNode fused = graph.nodes[std::size_t(nodes.record)];
  fused.op = "finish_step";
  fused.attrs = {};
  fused.attrs.set("scaling", nodes.scale >= 0);
  if (nodes.scale >= 0) {
    fused.attrs.set("growth_interval",
                    graph.nodes[std::size_t(nodes.scale)].attrs.i64("growth_interval"));
  }
  fused.attrs.set("last_micro", tail.attrs.flag("last_micro"));
  fused.attrs.set("training", tail.attrs.flag("training"));
  fused.attrs = complete_attrs(OpRegistry::instance().get(fused.op), fused.attrs);
  if (!oracle.fuses(fused.op, fused.attrs, types_of(graph, fused.inputs))) return;
  fused.label = tail.label;
  fused.state_writes = present_states(fused);
  std::vector<bool> gone(graph.nodes.size(), false);
  gone[std::size_t(nodes.record)] = true;
  if (nodes.scale >= 0) gone[std::size_t(nodes.scale)] = true;
  graph.nodes[std::size_t(nodes.advance)] = std::move(fused);
  remove_nodes(graph, gone);
}

}  // namespace

void fuse_step_tail(LoweredGraph& graph, const KernelOracle& oracle) {
  fuse_update(graph, oracle);
  fuse_records(graph, oracle);
}

}  // namespace tr
