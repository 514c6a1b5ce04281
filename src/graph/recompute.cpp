// SPDX-License-Identifier: Apache-2.0
#include "graph/recompute.h"

#include <algorithm>

#include "core/check.h"
#include "graph/aliases.h"

namespace tr {
namespace {

/// A write of a tensor's bytes, by program order.
struct Write {
  int node;
  TensorId tensor;
};

std::vector<Write> writes_of(const LoweredGraph& graph) {
  std::vector<Write> writes;
  for (int n = 0; n < int(graph.nodes.size()); ++n) {
    for (const Access& access : accesses_of(graph, graph.nodes[std::size_t(n)])) {
      if (access.writes) writes.push_back({n, access.tensor});
    }
  }
  return writes;
}

bool is_buffer(const LoweredTensor& t) {
  return t.role == Role::BUFFER || t.role == Role::BUFFER_NEXT;
}

bool in_backward_pass(const LoweredGraph& graph, int n) {
  return graph.nodes[std::size_t(n)].label == GraphId::BACKWARD;
}

/// The last node of the backward pass that is the first there to read some transient tensor:
/// whatever runs again does so before it.
int last_first_reader(const LoweredGraph& graph, int turn) {
  std::vector<bool> read(graph.tensors.size(), false);
  int last = turn;
  for (int n = turn; n < int(graph.nodes.size()); ++n) {
    if (!in_backward_pass(graph, n)) continue;
    for (const TensorId id : graph.nodes[std::size_t(n)].inputs) {
      if (id == kNoTensor || is_persistent(graph.tensor(id).role)) continue;
      const auto owner = std::size_t(owner_of(graph, id));
      if (!read[owner]) last = n;
      read[owner] = true;
    }
  }
  return last;
}

/// By owner: it is written by one node, and behind the forward pass only the backward pass reads
/// it.
std::vector<bool> can_be_remade(const LoweredGraph& graph, int turn,
                                const std::vector<Write>& writes) {
  std::vector<int> count(graph.tensors.size(), 0);
  for (const Write& write : writes) ++count[std::size_t(owner_of(graph, write.tensor))];
  std::vector<bool> can(graph.tensors.size(), false);
  for (std::size_t id = 0; id < can.size(); ++id) {
    const LoweredTensor& t = graph.tensors[id];
    const bool next = t.role == Role::BUFFER_NEXT;  // its second writing goes to scratch
    can[id] = t.view_of == kNoTensor && (next || (!is_persistent(t.role) && count[id] == 1));
  }
  for (int n = turn; n < int(graph.nodes.size()); ++n) {
    if (in_backward_pass(graph, n)) continue;
    for (const TensorId id : graph.nodes[std::size_t(n)].inputs) {
      if (id == kNoTensor || is_persistent(graph.tensor(id).role)) continue;
      can[std::size_t(owner_of(graph, id))] = false;
    }
  }
  return can;
}

/// Emits the nodes in their new order.
class Rewrite {
 public:
  Rewrite(const LoweredGraph& graph, const std::vector<bool>& again)
      : graph_(graph),
        again_(again),
        writer_(graph.tensors.size(), -1),
        copy_(graph.tensors.size(), kNoTensor) {
    out_.tensors = graph.tensors;
    for (int n = 0; n < int(graph.nodes.size()); ++n) {
      for (const TensorId id : graph.nodes[std::size_t(n)].outputs) writer_[std::size_t(id)] = n;
    }
  }

  LoweredGraph run() {
    const int turn = first_backward(graph_);
    for (int n = 0; n < int(graph_.nodes.size()); ++n) {
      LoweredNode node = graph_.nodes[std::size_t(n)];
      if (n >= turn) {
        for (TensorId& id : node.inputs) id = remade(id);
      }
      out_.nodes.push_back(std::move(node));
    }
    derive_dependencies(out_);
    verify(out_, "recompute");
    return std::move(out_);
  }

 private:
  /// The tensor to read instead of `id` in the backward pass; its writer runs again if it has to.
  TensorId remade(TensorId id) {
    if (id == kNoTensor || is_persistent(graph_.tensor(id).role)) return id;
    const TensorId owner = owner_of(graph_, id);
    const int writer = writer_[std::size_t(owner)];
    if (writer < 0 || !again_[std::size_t(writer)]) return id;
    if (copy_[std::size_t(owner)] == kNoTensor) run_again(writer);
    if (id != owner && copy_[std::size_t(id)] == kNoTensor) {
      LoweredTensor view = graph_.tensor(id);
      view.name = "again(" + view.name + ")";
      view.view_of = copy_[std::size_t(owner)];
      copy_[std::size_t(id)] = add(std::move(view));
    }
    return copy_[std::size_t(id)];
  }

  void run_again(int n) {
    LoweredNode node = graph_.nodes[std::size_t(n)];
    for (TensorId& id : node.inputs) id = remade(id);
    for (TensorId& id : node.outputs) {
      LoweredTensor t = graph_.tensor(id);
      t.name = "again(" + t.name + ")";
      if (t.role == Role::BUFFER_NEXT) t.role = Role::FEATURE, t.param = -1;
      id = copy_[std::size_t(id)] = add(std::move(t));
    }
    if (node.workspace != kNoTensor) {
      LoweredTensor workspace = graph_.tensor(node.workspace);
      workspace.name = "again(" + workspace.name + ")";
      node.workspace = add(std::move(workspace));
    }
    node.label = GraphId::BACKWARD;
    node.again = true;
    out_.nodes.push_back(std::move(node));
  }

  TensorId add(LoweredTensor tensor) {
    out_.tensors.push_back(std::move(tensor));
    return TensorId(out_.tensors.size() - 1);
  }

  const LoweredGraph& graph_;
  const std::vector<bool>& again_;
  std::vector<int> writer_;     // by tensor
  std::vector<TensorId> copy_;  // by tensor of graph_: what the backward pass reads
  LoweredGraph out_;
};

}  // namespace

int first_backward(const LoweredGraph& graph) {
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [](const auto& node) { return node.label == GraphId::BACKWARD; });
  return int(first - graph.nodes.begin());
}

std::vector<bool> may_run_again(const LoweredGraph& graph) {
  const int turn = first_backward(graph), last = last_first_reader(graph, turn);
  const Aliases aliases(graph);
  const std::vector<Write> writes = writes_of(graph);
  const std::vector<bool> can = can_be_remade(graph, turn, writes);
  std::vector<bool> may(graph.nodes.size(), false);
  for (int n = 0; n < turn; ++n) {
    const LoweredNode& node = graph.nodes[std::size_t(n)];
    const auto changed = [&](TensorId id) {
      if (id == kNoTensor || is_buffer(graph.tensor(id))) return false;
      return std::any_of(writes.begin(), writes.end(), [&](const Write& w) {
        return w.node > n && w.node < last && aliases.group(w.tensor) == aliases.group(id) &&
               aliases.overlap(w.tensor, id);
      });
    };
    may[std::size_t(n)] = node.label == GraphId::FORWARD && node.state_writes.empty() &&
                          std::all_of(node.outputs.begin(), node.outputs.end(),
                                      [&](TensorId id) { return bool(can[std::size_t(id)]); }) &&
                          std::none_of(node.inputs.begin(), node.inputs.end(), changed);
  }
  return may;
}

LoweredGraph with_recomputation(const LoweredGraph& graph, const std::vector<bool>& again) {
  TR_ASSERT(again.size() == graph.nodes.size());
  return Rewrite(graph, again).run();
}

}  // namespace tr
