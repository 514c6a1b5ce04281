// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "graph/lowered_graph.h"
#include "graph/memory_plan.h"
#include "graph/reachability.h"

namespace tr {

/// The bytes of one transient owner: used by the nodes that use it or one of its views.
struct Transient {
  TensorId owner = kNoTensor;
  std::int64_t bytes = 0;    // a multiple of kAlignment, at least one
  std::vector<int> users;    // nodes, ascending
  std::vector<int> writers;  // those of them that write, ascending
  int first() const { return users.front(); }
  int last() const { return users.back(); }
};

/// All used transient owners of the graph, by id.
std::vector<Transient> collect_transients(const LoweredGraph& graph);

/// Transients with one fixed relative place: an input and the output that takes its place, and so
/// on.
struct PlaceGroup {
  struct Member {
    int transient = -1;
    std::int64_t relative = 0;  // bytes from the group's place
  };
  std::vector<Member> members;
};

/// Which orders the plan may rely on: those of the graph's edges, and those that follow once edges
/// between nodes at least `distance` apart in program order are added. (An edge forward in program
/// order never closes a cycle; one from a node long past costs the streams little.)
class UsableOrder {
 public:
  static constexpr int kNoEdges = -1;

  UsableOrder(const Reachability& closure, int distance) : closure_(closure), distance_(distance) {}
  bool before(int a, int b) const {
    return (distance_ != kNoEdges && b - a >= distance_) || closure_.ordered(a, b);
  }
  /// Every user of `a` is before every writer of `b`: b may have a's bytes.
  bool before(const Transient& a, const Transient& b) const;

 private:
  const Reachability& closure_;
  int distance_;
};

/// Groups of transients: outputs that may take the place of a dying input do so, where `in_place`.
std::vector<PlaceGroup> form_groups(const LoweredGraph& graph,
                                    const std::vector<Transient>& transients,
                                    const UsableOrder& order, bool in_place);

}  // namespace tr
