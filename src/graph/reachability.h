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
  /// True if node `before` has ended whenever node `after` starts.
  bool ordered(int before, int after) const {
    return (rows_[std::size_t(after) * words_ + std::size_t(before) / 64] >> (before % 64)) & 1u;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> rows_;   // row n: the ancestors of n
};

}  // namespace tr
