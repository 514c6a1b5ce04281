// SPDX-License-Identifier: Apache-2.0
#include "graph/transients.h"

#include <algorithm>

#include "graph/aliases.h"

namespace tr {
namespace {

void add_once(std::vector<int>& nodes, int node) {
  if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
}

/// Decides, node by node, which outputs take the place of an input.
class InPlace {
 public:
  InPlace(const LoweredGraph& graph, const std::vector<Transient>& transients,
          const UsableOrder& order)
      : graph_(graph),
        transients_(transients),
        order_(order),
        of_owner_(graph.tensors.size(), -1),
        group_(transients.size()),
        relative_(transients.size(), 0) {
    for (std::size_t t = 0; t < transients.size(); ++t) {
      of_owner_[std::size_t(transients[t].owner)] = int(t);
      group_[t] = int(t);
    }
  }

  void merge_all() {
    for (int n = 0; n < int(graph_.nodes.size()); ++n) {
      std::vector<int> taken;  // transients whose place an output of this node has
      for (const auto& [out, in] : graph_.nodes[std::size_t(n)].in_place)
        try_merge(n, out, in, taken);
    }
  }

  std::vector<PlaceGroup> groups() const {
    std::vector<PlaceGroup> by_root(transients_.size());
    for (std::size_t t = 0; t < transients_.size(); ++t) {
      by_root[std::size_t(group_[t])].members.push_back({int(t), relative_[t]});
    }
    std::erase_if(by_root, [](const PlaceGroup& g) { return g.members.empty(); });
    return by_root;
  }

 private:
  int transient_of(TensorId id) const {
    return id == kNoTensor ? -1 : of_owner_[std::size_t(owner_of(graph_, id))];
  }

  void try_merge(int n, int out_index, int in_index, std::vector<int>& taken) {
    const LoweredNode& node = graph_.nodes[std::size_t(n)];
    const TensorId out = node.outputs[std::size_t(out_index)],
                   in = node.inputs[std::size_t(in_index)];
    const int to = transient_of(out), from = transient_of(in);
    if (to < 0 || from < 0 || to == from || graph_.tensor(out).view_of != kNoTensor) return;
    const Transient &target = transients_[std::size_t(to)],
                    &source = transients_[std::size_t(from)];
    const std::int64_t offset = graph_.tensor(in).view_offset;
    if (group_[std::size_t(to)] != to || offset % kAlignment != 0) return;
    if (graph_.tensor(out).bytes > graph_.tensor(in).bytes) return;
    if (target.first() != n || target.writers != std::vector<int>{n}) return;
    if (std::find(taken.begin(), taken.end(), from) != taken.end()) return;
    if (!dies_at(source, n) || read_otherwise(node, out_index, from, offset)) return;
    group_[std::size_t(to)] = group_[std::size_t(from)];
    relative_[std::size_t(to)] = relative_[std::size_t(from)] + offset;
    taken.push_back(from);
  }

  bool dies_at(const Transient& source, int n) const {
    return std::all_of(source.users.begin(), source.users.end(),
                       [&](int user) { return user == n || order_.before(user, n); });
  }

  /// True if the node touches `source` in a way that the in-place pairs of this output do not
  /// allow.
  bool read_otherwise(const LoweredNode& node, int out_index, int source,
                      std::int64_t offset) const {
    if (transient_of(node.workspace) == source) return true;
    const std::int64_t out_bytes = graph_.tensor(node.outputs[std::size_t(out_index)]).bytes;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (transient_of(node.inputs[i]) != source) continue;
      const std::pair<int, int> pair{out_index, int(i)};
      const bool allowed =
          std::find(node.in_place.begin(), node.in_place.end(), pair) != node.in_place.end();
      const LoweredTensor& read = graph_.tensor(node.inputs[i]);
      // A shorter view of the same bytes is read again and again (broadcast): not element by
      // element.
      if (!allowed || read.view_offset != offset || read.bytes < out_bytes) return true;
    }
    for (const int i : node.state_writes) {
      if (transient_of(node.inputs[std::size_t(i)]) == source) return true;
    }
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](TensorId id) { return transient_of(id) == source; });
  }

  const LoweredGraph& graph_;
  const std::vector<Transient>& transients_;
  const UsableOrder& order_;
  std::vector<int> of_owner_;  // transient by owner id
  std::vector<int> group_;     // first transient of its group
  std::vector<std::int64_t> relative_;
};

}  // namespace

std::vector<Transient> collect_transients(const LoweredGraph& graph) {
  std::vector<Transient> by_id(graph.tensors.size());
  for (int n = 0; n < int(graph.nodes.size()); ++n) {
    for (const Access& access : accesses_of(graph, graph.nodes[std::size_t(n)])) {
      const TensorId owner = owner_of(graph, access.tensor);
      if (is_persistent(graph.tensor(owner).role)) continue;
      Transient& t = by_id[std::size_t(owner)];
      const std::int64_t bytes = std::max<std::int64_t>(graph.tensor(owner).bytes, 1);
      t.owner = owner;
      t.bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
      add_once(t.users, n);
      if (access.writes) add_once(t.writers, n);
    }
  }
  std::erase_if(by_id, [](const Transient& t) { return t.owner == kNoTensor; });
  for (Transient& t : by_id) {
    if (t.writers.empty()) t.writers.push_back(t.first());
  }
  return by_id;
}

bool UsableOrder::before(const Transient& a, const Transient& b) const {
  if (a.last() >= b.writers.front()) return false;
  if (distance_ != kNoEdges && b.writers.front() - a.last() >= distance_) return true;
  for (const int user : a.users) {
    for (const int writer : b.writers) {
      if (!before(user, writer)) return false;
    }
  }
  return true;
}

std::vector<PlaceGroup> form_groups(const LoweredGraph& graph,
                                    const std::vector<Transient>& transients,
                                    const UsableOrder& order, bool in_place) {
  InPlace groups(graph, transients, order);
  if (in_place) groups.merge_all();
  return groups.groups();
}

}  // namespace tr
