// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "graph/lowered_graph.h"
#include "graph/memory_plan.h"

namespace tr::test {

/// Judges plans by paths in the graph. It shares no code with the library: views, users and paths
/// are worked out here.
class PlanChecker {
 public:
  explicit PlanChecker(const LoweredGraph& graph) : graph_(graph), uses_(graph.tensors.size()) {
    for (int n = 0; n < int(graph.nodes.size()); ++n) {
      before_.push_back(search_backwards(n));
      collect(n);
    }
  }

  /// Empty if all is well, else the first fault in words.
  std::string fault(const MemoryPlan& plan) const {
    std::string found = fault_of_places(plan);
    for (std::size_t i = 0; found.empty() && i < plan.placements.size(); ++i) {
      const Placement& a = plan.placements[i];
      for (std::size_t j = i + 1; found.empty() && j < plan.placements.size(); ++j) {
        const Placement& b = plan.placements[j];
        if (b.offset >= a.offset + a.bytes) break;  // placements stand by offset
        if (may_share(plan, a.tensor, b.tensor) || may_share(plan, b.tensor, a.tensor)) continue;
        found = graph_.tensor(a.tensor).name + " and " + graph_.tensor(b.tensor).name +
                " share bytes and are not ordered";
      }
    }
    return found;
  }

 private:
  struct Uses {
    std::set<int> all, writers;
  };

  TensorId owner(TensorId id) const {
    return graph_.tensor(id).view_of == kNoTensor ? id : graph_.tensor(id).view_of;
  }

  /// Breadth-first over edges, from `n` back.
  std::vector<bool> search_backwards(int n) const {
    std::vector<bool> seen(graph_.nodes.size(), false);
    std::deque<int> open{n};
    while (!open.empty()) {
      const int at = open.front();
      open.pop_front();
      for (const int dep : graph_.nodes[std::size_t(at)].deps) {
        if (!seen[std::size_t(dep)]) open.push_back(dep);
        seen[std::size_t(dep)] = true;
      }
    }
    return seen;
  }

  void collect(int n) {
    const LoweredNode& node = graph_.nodes[std::size_t(n)];
    std::set<TensorId> read;
    for (const TensorId id : node.inputs) {
      if (id != kNoTensor) read.insert(owner(id));
    }
    for (const TensorId id : read) uses_[std::size_t(id)].all.insert(n);
    for (const TensorId id : node.outputs) {
      const bool relabels = graph_.tensor(id).view_of != kNoTensor && read.contains(owner(id));
      uses_[std::size_t(owner(id))].all.insert(n);
      if (!relabels) uses_[std::size_t(owner(id))].writers.insert(n);
    }
    if (node.workspace == kNoTensor) return;
    uses_[std::size_t(node.workspace)].all.insert(n);
    uses_[std::size_t(node.workspace)].writers.insert(n);
  }

  std::string fault_of_places(const MemoryPlan& plan) const {
    const std::int64_t end = plan.persistent_bytes + plan.transient_bytes;
    std::set<TensorId> placed;
    for (const Placement& p : plan.placements) {
      const LoweredTensor& t = graph_.tensor(p.tensor);
      if (p.offset % kAlignment != 0) return t.name + " is not aligned";
      if (p.bytes < t.bytes) return t.name + " has too few bytes";
      if (p.offset < plan.persistent_bytes || p.offset + p.bytes > end)
        return t.name + " is out of range";
      if (plan.offsets[std::size_t(p.tensor)] != p.offset) return t.name + " has two places";
      if (!placed.insert(p.tensor).second) return t.name + " is placed twice";
    }
    for (TensorId id = 0; id < TensorId(graph_.tensors.size()); ++id) {
      const LoweredTensor& t = graph_.tensor(id);
      if (is_persistent(t.role) || uses_[std::size_t(owner(id))].all.empty()) continue;
      if (!placed.contains(owner(id))) return t.name + " has no place";
      const std::int64_t place = plan.offsets[std::size_t(owner(id))] + t.view_offset;
      if (plan.offsets[std::size_t(id)] != place) return "the view " + t.name + " is elsewhere";
    }
    return "";
  }

  /// `second` may have bytes of `first`: all users of the one end before each writer of the other
  /// starts, or the one writer takes exactly the place of an input that dies there.
  bool may_share(const MemoryPlan& plan, TensorId first, TensorId second) const {
    const Uses &a = uses_[std::size_t(first)], &b = uses_[std::size_t(second)];
    const auto ordered = [&](int before, int after) {
      return bool(before_[std::size_t(after)][std::size_t(before)]);
    };
    bool all = true;
    for (const int user : a.all) {
      for (const int writer : b.writers) all = all && ordered(user, writer);
    }
    if (all) return true;
    if (b.writers.size() != 1 || *b.all.begin() != *b.writers.begin()) return false;
    const int n = *b.writers.begin();
    for (const int user : a.all) {
      if (user != n && !ordered(user, n)) return false;
    }
    return in_place_at(plan, graph_.nodes[std::size_t(n)], first, second);
  }

  bool in_place_at(const MemoryPlan& plan, const LoweredNode& node, TensorId first,
                   TensorId second) const {
    const auto place = [&](TensorId id) { return plan.offsets[std::size_t(id)]; };
    int reads = 0, allowed = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoTensor || owner(node.inputs[i]) != first) continue;
      ++reads;
      for (const auto& [out, in] : node.in_place) {
        if (in == int(i) && node.outputs[std::size_t(out)] == second &&
            place(second) == place(node.inputs[i])) {
          allowed += graph_.tensor(second).bytes <= graph_.tensor(node.inputs[i]).bytes ? 1 : 0;
        }
      }
    }
    return reads > 0 && reads == allowed;
  }

  const LoweredGraph& graph_;
  std::vector<Uses> uses_;                 // by owner
  std::vector<std::vector<bool>> before_;  // by node: from where a path leads to it
};

/// Runs a graph as moves of marks: each writer leaves its mark in every 64 bytes that it writes,
/// each reader sums up the marks that it sees. Two runs of the same graph agree if every reader saw
/// the same bytes.
class MarkedRun {
 public:
  /// `places` by tensor id; persistent tensors get places of their own after `transient_end`.
  MarkedRun(const LoweredGraph& graph, std::vector<std::int64_t> places, std::int64_t transient_end)
      : graph_(graph), places_(std::move(places)), seen_(graph.nodes.size(), 0) {
    const std::int64_t end = place_persistent(transient_end);
    marks_.assign(std::size_t(end / 64 + 64), 0);
  }

  void run_node(int n) {
    const LoweredNode& node = graph_.nodes[std::size_t(n)];
    const std::uint64_t mark = std::uint64_t(n + 1) * 1000;
    if (node.workspace != kNoTensor) write(node.workspace, mark);
    std::uint64_t sum = 0;
    for (const TensorId in : node.inputs) sum = sum * 31 + (in == kNoTensor ? 0 : read(in));
    for (const int i : node.state_writes)
      write(node.inputs[std::size_t(i)], mark + 1 + std::uint64_t(i));
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (!relabels(node, node.outputs[o])) write(node.outputs[o], mark + 100 + o);
    }
    // What the node wrote must still be there at its end, workspace included.
    for (const TensorId out : node.outputs) sum = sum * 31 + read(out);
    if (node.workspace != kNoTensor) sum = sum * 31 + read(node.workspace);
    seen_[std::size_t(n)] = sum;
  }

  const std::vector<std::uint64_t>& seen() const { return seen_; }

 private:
  std::int64_t place_persistent(std::int64_t end) {
    end = (end + 63) / 64 * 64;
    const auto give = [&](std::size_t id) {
      places_[id] = end;
      end += (graph_.tensors[id].bytes + 63) / 64 * 64;
    };
    std::map<int, std::int64_t> range_start;
    for (int role = 0; is_persistent(Role(role)); ++role) {
      range_start[role] = end;
      for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
        const LoweredTensor& t = graph_.tensors[id];
        if (t.role == Role(role) && t.range_role < 0 && t.view_of == kNoTensor) give(id);
      }
    }
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
      const LoweredTensor& t = graph_.tensors[id];
      if (t.range_role >= 0) places_[id] = range_start[t.range_role];
      if (t.view_of != kNoTensor) places_[id] = places_[std::size_t(t.view_of)] + t.view_offset;
    }
    return end;
  }

  bool relabels(const LoweredNode& node, TensorId out) const {
    const TensorId owner = graph_.tensor(out).view_of;
    return owner != kNoTensor &&
           std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId in) {
             return in == owner || (in != kNoTensor && graph_.tensor(in).view_of == owner);
           });
  }

  template <typename Action>
  void each_mark(TensorId id, Action action) {
    const std::int64_t begin = places_[std::size_t(id)] / 64;
    const std::int64_t count = (graph_.tensor(id).bytes + 63) / 64;
    for (std::int64_t i = begin; i < begin + count; ++i) action(marks_[std::size_t(i)]);
  }
  void write(TensorId id, std::uint64_t mark) {
    each_mark(id, [&](std::uint64_t& m) { m = mark; });
  }
  std::uint64_t read(TensorId id) {
    std::uint64_t sum = 0;
    each_mark(id, [&](std::uint64_t m) { sum = sum * 1000003 + m; });
    return sum;
  }

  const LoweredGraph& graph_;
  std::vector<std::int64_t> places_;
  std::vector<std::uint64_t> marks_;  // one for 64 bytes
  std::vector<std::uint64_t> seen_;
};

/// What each node sees in program order if every tensor has bytes of its own.
inline std::vector<std::uint64_t> seen_without_sharing(const LoweredGraph& graph) {
  std::vector<std::int64_t> places(graph.tensors.size(), 0);
  std::int64_t end = 0;
  for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
    places[id] = end;
    end += (graph.tensors[id].bytes + 63) / 64 * 64;
  }
  MarkedRun run(graph, std::move(places), end);
  for (int n = 0; n < int(graph.nodes.size()); ++n) run.run_node(n);
  return run.seen();
}

/// What each node sees with the places of `plan` in a random order that the edges allow.
inline std::vector<std::uint64_t> seen_in_random_order(const LoweredGraph& graph,
                                                       const MemoryPlan& plan, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  MarkedRun run(graph, plan.offsets, plan.persistent_bytes + plan.transient_bytes);
  std::vector<int> missing(graph.nodes.size());
  std::vector<std::vector<int>> later(graph.nodes.size());
  std::vector<int> ready;
  for (int n = 0; n < int(graph.nodes.size()); ++n) {
    missing[std::size_t(n)] = int(graph.nodes[std::size_t(n)].deps.size());
    for (const int dep : graph.nodes[std::size_t(n)].deps) later[std::size_t(dep)].push_back(n);
    if (missing[std::size_t(n)] == 0) ready.push_back(n);
  }
  while (!ready.empty()) {
    const std::size_t pick = std::size_t(random() % ready.size());
    const int n = ready[pick];
    ready.erase(ready.begin() + long(pick));
    run.run_node(n);
    for (const int next : later[std::size_t(n)]) {
      if (--missing[std::size_t(next)] == 0) ready.push_back(next);
    }
  }
  return run.seen();
}

}  // namespace tr::test
