// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "graph/lowered_graph.h"

namespace tr {

/// Happens-before of a lowered graph: the transitive closure of the nodes' deps, as bit sets.
class Reachability {
 public:
  explicit Reachability(const LoweredGraph& graph);
  /// For building: no node is ordered yet; set_deps() each node in program order.
  explicit Reachability(std::size_t num_nodes);

  /// True if node `before` has ended whenever node `after` starts.
  bool ordered(int before, int after) const {
    return (rows_[std::size_t(after) * words_ + std::size_t(before) / 64] >> (before % 64)) & 1u;
  }

  /// Makes the ancestors of `node` those of `deps`, which must be set already, and `deps`
  /// themselves.
  void set_deps(int node, const std::vector<int>& deps);
  /// The members of `deps` (any order, doubles allowed) that no other one is ordered after, sorted.
  /// Rows of the members must be set. `keep` stays in any case (-1: none).
  std::vector<int> without_redundant(std::vector<int> deps, int keep) const;

 private:
  std::size_t words_;
  std::vector<std::uint64_t> rows_;  // row n: the ancestors of n
};

}  // namespace tr
