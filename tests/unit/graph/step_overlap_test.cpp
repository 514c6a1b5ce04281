// SPDX-License-Identifier: Apache-2.0
#include "graph/step_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/compiler.h"
#include "graph_fixture.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"

namespace tr {
namespace {

using test::kDigitFields;

struct Planned {
  CompileResult compiled;
  const LoweredGraph& graph() const { return compiled.lowered[0]; }
  const MemoryPlan& plan() const { return compiled.memory.variants[0]; }
};

Planned planned() {
  CompileRequest request =
      test::request_for(seq(fc(32, true), relu(), fc(16, true), relu(), fc(10, true)), kDigitFields,
                        {test::variant(Mode::TRAIN, 8, kDigitFields, {})});
  return {compile(request, PlanningOracle(DeviceKind::CUDA))};
}

bool touch(const Planned& p, const LoweredNode& a, const LoweredNode& b) {
  struct Access {
    std::int64_t begin, end;
    bool writes;
  };
  const auto accesses = [&](const LoweredNode& node) {
    std::vector<Access> all;
    const auto add = [&](TensorId id, bool writes) {
      if (id == kNoTensor || p.graph().tensor(id).role == Role::INPUT) return;
      const std::int64_t at = p.plan().offsets[std::size_t(id)];
      if (at >= 0) all.push_back({at, at + p.graph().tensor(id).bytes, writes});
    };
    for (const TensorId id : node.inputs) add(id, false);
    for (const TensorId id : node.outputs) add(id, true);
    for (const int state : node.state_writes) add(node.inputs[std::size_t(state)], true);
    add(node.workspace, true);
    return all;
  };
  for (const Access& x : accesses(a)) {
    for (const Access& y : accesses(b)) {
      if ((x.writes || y.writes) && x.begin < y.end && y.begin < x.end) return true;
    }
  }
  return false;
}

/// Nodes of the first run that node i of the second runs after, through all edges.
std::vector<std::vector<bool>> ordered(const Planned& p,
                                       const std::vector<std::vector<int>>& edges) {
  const std::size_t n = p.graph().nodes.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false)), done = before;
  const auto unite = [](std::vector<bool>& into, const std::vector<bool>& from) {
    for (std::size_t k = 0; k < into.size(); ++k) into[k] = into[k] || from[k];
  };
  for (std::size_t i = 0; i < n; ++i) {
    done[i][i] = true;
    for (const int dep : p.graph().nodes[i].deps) unite(done[i], done[std::size_t(dep)]);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (const int dep : p.graph().nodes[i].deps) unite(before[i], before[std::size_t(dep)]);
    for (const int j : edges[i]) unite(before[i], done[std::size_t(j)]);
  }
  return before;
}

/// First pair that touches the same bytes without an order; empty if there is none.
std::string unordered_pair(const Planned& p, const std::vector<std::vector<int>>& edges) {
  const auto before = ordered(p, edges);
  for (std::size_t i = 0; i < p.graph().nodes.size(); ++i) {
    for (std::size_t j = 0; j < p.graph().nodes.size(); ++j) {
      const LoweredNode &second = p.graph().nodes[i], &first = p.graph().nodes[j];
      if (touch(p, second, first) && !before[i][j]) return second.op + " after " + first.op;
    }
  }
  return "";
}

TEST(StepOverlap, EveryPairThatTouchesTheSameBytesIsOrdered) {
  const Planned p = planned();
  EXPECT_EQ(unordered_pair(p, edges_to_next_run(p.graph(), p.plan())), "");
}

TEST(StepOverlap, EachEdgeIsNeeded) {
  const Planned p = planned();
  const auto edges = edges_to_next_run(p.graph(), p.plan());
  int removed = 0;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    for (const int edge : edges[i]) {
      auto fewer = edges;
      std::erase(fewer[i], edge);
      EXPECT_NE(unordered_pair(p, fewer), "") << "edge " << edge << " -> " << i;
      ++removed;
    }
  }
  EXPECT_GT(removed, 0);
}

TEST(StepOverlap, TheFirstLayerDoesNotWaitForTheCounters) {
  const Planned p = planned();
  const auto before = ordered(p, edges_to_next_run(p.graph(), p.plan()));
  const auto& nodes = p.graph().nodes;
  const auto advance = std::find_if(nodes.begin(), nodes.end(), [](const LoweredNode& node) {
    return node.op == "advance_counters";
  });
  ASSERT_NE(advance, nodes.end());
  EXPECT_FALSE(before[0][std::size_t(advance - nodes.begin())]);
}

}  // namespace
}  // namespace tr
