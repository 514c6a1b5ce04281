// SPDX-License-Identifier: Apache-2.0
//
// The referee of the planner. It must share no code with it: views, users, closure and in-place
// rules are worked out here from the graph alone.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/memory_plan.h"

namespace tr {
namespace {

using NodeSet = std::vector<bool>;

struct Storage {
  std::int64_t bytes = 0;
  std::vector<int> touched_by;  // nodes
  std::vector<int> written_by;
};

class Bound {
 public:
  explicit Bound(const LoweredGraph& graph) : graph_(graph), storages_(graph.tensors.size()) {
    for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
      const LoweredTensor& t = graph.tensors[id];
      if (t.view_of == kNoTensor && !is_persistent(t.role)) storages_[id].bytes = t.bytes;
    }
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const LoweredNode& node = graph.nodes[n];
      for (const TensorId id : node.inputs) touch(id, int(n), false);
      for (const TensorId id : node.outputs) touch(id, int(n), true);
      touch(node.workspace, int(n), true);
      earlier_.push_back(all_before(int(n)));
    }
  }

  std::int64_t maximum() const {
    std::int64_t most = 0;
    for (int n = 0; n < int(graph_.nodes.size()); ++n) most = std::max(most, live_at(n));
    return most;
  }

 private:
  std::size_t storage_of(TensorId id) const {
    const TensorId owner = graph_.tensor(id).view_of;
    return std::size_t(owner == kNoTensor ? id : owner);
  }

  void touch(TensorId id, int node, bool writes) {
    if (id == kNoTensor) return;
    Storage& s = storages_[storage_of(id)];
    s.touched_by.push_back(node);
    if (writes) s.written_by.push_back(node);
  }

  NodeSet all_before(int n) const {
    NodeSet before(graph_.nodes.size(), false);
    for (const int dep : graph_.nodes[std::size_t(n)].deps) {
      const NodeSet& further = earlier_[std::size_t(dep)];
      for (std::size_t i = 0; i < std::size_t(dep); ++i) {
        if (further[i]) before[i] = true;
      }
      before[std::size_t(dep)] = true;
    }
    return before;
  }

  bool is_before(int a, int b) const { return earlier_[std::size_t(b)][std::size_t(a)]; }

  bool surely_live(const Storage& s, int n) const {
    const bool written = std::any_of(s.written_by.begin(), s.written_by.end(),
                                     [&](int w) { return w == n || is_before(w, n); });
    return written && std::any_of(s.touched_by.begin(), s.touched_by.end(),
                                  [&](int u) { return u == n || is_before(n, u); });
  }

  std::int64_t live_at(int n) const {
    std::int64_t live = 0;
    for (const Storage& s : storages_) {
      if (s.bytes > 0 && surely_live(s, n)) live += s.bytes;
    }
    std::vector<TensorId> used;
    return live - most_saved(graph_.nodes[std::size_t(n)], n, 0, used);
  }

  /// The output's bytes if it may lie where the dying input lies, else 0.
  std::int64_t saved(const LoweredNode& node, int n, std::pair<int, int> pair) const {
    const TensorId out = node.outputs[std::size_t(pair.first)];
    const TensorId in = node.inputs[std::size_t(pair.second)];
    if (out == kNoTensor || in == kNoTensor || graph_.tensor(out).view_of != kNoTensor) return 0;
    if (is_persistent(graph_.tensor(out).role) || is_persistent(graph_.tensor(in).role)) return 0;
    const std::size_t source = storage_of(in);
    if (source == storage_of(out) || graph_.tensor(out).bytes > graph_.tensor(in).bytes) return 0;
    for (const int user : storages_[source].touched_by) {
      if (user != n && !is_before(user, n)) return 0;
    }
    return graph_.tensor(out).bytes;
  }

  /// Most bytes that a choice of pairs saves, each output and each input's storage used once.
  std::int64_t most_saved(const LoweredNode& node, int n, std::size_t next,
                          std::vector<TensorId>& used) const {
    if (next == node.in_place.size()) return 0;
    std::int64_t best = most_saved(node, n, next + 1, used);
    const std::int64_t gain = saved(node, n, node.in_place[next]);
    if (gain == 0) return best;
    const TensorId out = node.outputs[std::size_t(node.in_place[next].first)];
    const TensorId in = TensorId(storage_of(node.inputs[std::size_t(node.in_place[next].second)]));
    const auto is_used = [&](TensorId id) {
      return std::find(used.begin(), used.end(), id) != used.end();
    };
    if (is_used(out) || is_used(in)) return best;
    used.push_back(out);
    used.push_back(in);
    best = std::max(best, gain + most_saved(node, n, next + 1, used));
    used.resize(used.size() - 2);
    return best;
  }

  const LoweredGraph& graph_;
  std::vector<Storage>
      storages_;  // by id of the owner; views and persistent tensors have no bytes here
  std::vector<NodeSet> earlier_;  // by node: all nodes that end before it starts
};

}  // namespace

std::int64_t transient_lower_bound(const LoweredGraph& graph) { return Bound(graph).maximum(); }

}  // namespace tr
