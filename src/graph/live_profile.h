// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/lowered_graph.h"

namespace tr {

/// Bytes of transient tensors that are live while each node of a graph runs in program order, where
/// some nodes run again (graph/recompute.h), without making that graph: an estimate of its plan.
class LiveProfile {
 public:
  LiveProfile(const LoweredGraph& graph, int turn);

  /// By node of the graph with what runs again, in its order.
  std::vector<std::int64_t> bytes(const std::vector<bool>& again) const;

 private:
  struct Item {
    std::vector<int> reads, writes;             // owners
    std::vector<std::pair<int, int>> in_place;  // (output, input), owners
    std::int64_t workspace = 0;
  };
  struct Step {
    int node;
    bool again;
  };
  class Order;

  int turn_;
  std::vector<Item> items_;          // by node
  std::vector<std::int64_t> bytes_;  // by owner, aligned; 0: persistent
  std::vector<int> writer_;          // node by owner, -1: none
};

}  // namespace tr
