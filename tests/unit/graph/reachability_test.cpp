// SPDX-License-Identifier: Apache-2.0
#include "graph/reachability.h"

#include <gtest/gtest.h>

#include <deque>

#include "random_graph.h"

namespace tr {
namespace {

/// Depth-first, the plain way.
bool has_path(const LoweredGraph& graph, int from, int to) {
  std::deque<int> open{to};
  std::vector<bool> seen(graph.nodes.size(), false);
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (const int dep : graph.nodes[std::size_t(at)].deps) {
      if (dep == from) return true;
      if (!seen[std::size_t(dep)]) open.push_back(dep);
      seen[std::size_t(dep)] = true;
    }
  }
  return false;
}

TEST(Reachability, AgreesWithASearchForPaths) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const LoweredGraph graph = test::RandomGraph::make(seed, 3);
    const Reachability closure(graph);
    int ordered = 0;
    for (int a = 0; a < int(graph.nodes.size()); a += 3) {
      for (int b = 0; b < int(graph.nodes.size()); ++b) {
        ASSERT_EQ(closure.ordered(a, b), has_path(graph, a, b))
            << "seed " << seed << ": " << a << " -> " << b;
        ordered += closure.ordered(a, b) ? 1 : 0;
      }
    }
    EXPECT_GT(ordered, 0);
  }
}

TEST(Reachability, NoNodeIsOrderedBeforeItself) {
  const LoweredGraph graph = test::RandomGraph::make(1);
  const Reachability closure(graph);
  for (int n = 0; n < int(graph.nodes.size()); ++n) EXPECT_FALSE(closure.ordered(n, n));
}

TEST(Reachability, LeavesOutEdgesThatFollowFromOthers) {
  Reachability closure(5);  // 0 -> 1 -> 2, 3 alone
  closure.set_deps(1, {0});
  closure.set_deps(2, {1});
  EXPECT_EQ(closure.without_redundant({0, 3, 2, 1, 2}, -1), (std::vector<int>{2, 3}));
  EXPECT_EQ(closure.without_redundant({0, 3, 2, 1}, 1), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(closure.without_redundant({}, -1), std::vector<int>{});
}

}  // namespace
}  // namespace tr
