// SPDX-License-Identifier: Apache-2.0
#include "graph/lowered_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "graph/reachability.h"
#include "random_graph.h"
#include "renaissance/core/error.h"

namespace tr {
namespace {

class LoweredGraphTest : public testing::Test {
 protected:
  TensorId tensor(const std::string& name, Role role = Role::FEATURE, std::int64_t bytes = 256) {
    LoweredTensor t;
    t.name = name;
    t.role = role;
    t.type = {Shape{bytes}, DType::UINT8};
    t.bytes = bytes;
    graph.tensors.push_back(t);
    return TensorId(graph.tensors.size() - 1);
  }
  TensorId view(TensorId of, std::int64_t offset, std::int64_t bytes) {
    const TensorId id = tensor(graph.tensor(of).name + ".view", graph.tensor(of).role, bytes);
    graph.tensors[std::size_t(id)].view_of = of;
    graph.tensors[std::size_t(id)].view_offset = offset;
    return id;
  }
  TensorId range(Role role, int bucket = -1) {
    const TensorId id = tensor("range", role, 1024);
    graph.tensors[std::size_t(id)].range_role = int(role);
    graph.tensors[std::size_t(id)].bucket = bucket;
    return id;
  }
  /// Each node on a stream of its own unless told: only data orders them.
  int node(std::vector<TensorId> inputs, std::vector<TensorId> outputs,
           std::vector<int> state_writes = {}, int stream = -1) {
    LoweredNode n;
    n.op = "op";
    n.layer = "layer" + std::to_string(graph.nodes.size());
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    n.state_writes = std::move(state_writes);
    n.stream = stream >= 0 ? stream : 100 + int(graph.nodes.size());
    graph.nodes.push_back(n);
    return int(graph.nodes.size()) - 1;
  }
  std::vector<int> deps(int n) const { return graph.nodes[std::size_t(n)].deps; }
  std::string fault() const {
    try {
      verify(graph, "some pass");
    } catch (const InternalError& error) {
      return error.what();
    }
    return "";
  }

  LoweredGraph graph;
};

TEST_F(LoweredGraphTest, OrdersReadsAndWritesOfOneTensor) {
  const TensorId state = tensor("state", Role::SCALAR);
  const int write = node({state}, {}, {0}), read_a = node({state}, {}), read_b = node({state}, {});
  const int again = node({state}, {}, {0});
  derive_dependencies(graph);
  EXPECT_EQ(deps(write), std::vector<int>{});
  EXPECT_EQ(deps(read_a), std::vector<int>{write});
  EXPECT_EQ(deps(read_b), std::vector<int>{write});
  EXPECT_EQ(deps(again), (std::vector<int>{read_a, read_b}));  // write follows from them
}

TEST_F(LoweredGraphTest, DisjointViewsAreNotOrdered) {
  const TensorId whole = tensor("whole", Role::FEATURE, 512);
  const TensorId low = view(whole, 0, 256), high = view(whole, 256, 256);
  node({}, {low});
  node({}, {high});
  const int reader = node({whole}, {tensor("y")});
  derive_dependencies(graph);
  EXPECT_EQ(deps(1), std::vector<int>{});
  EXPECT_EQ(deps(reader), (std::vector<int>{0, 1}));
}

TEST_F(LoweredGraphTest, RelabellingIsNoWrite) {
  const TensorId x = tensor("x");
  node({}, {x});
  const int other_reader = node({x}, {tensor("a")});
  const int relabel = node({x}, {view(x, 0, 256)});
  derive_dependencies(graph);
  EXPECT_EQ(deps(other_reader), std::vector<int>{0});
  EXPECT_EQ(deps(relabel), std::vector<int>{0});
}

TEST_F(LoweredGraphTest, RangesOverlapTheTensorsOfTheirRole) {
  const TensorId weight = tensor("w", Role::WEIGHT), gradient = tensor("dw", Role::GRADIENT);
  const TensorId weights = range(Role::WEIGHT), gradients = range(Role::GRADIENT);
  node({weight}, {tensor("y")});
  node({}, {gradient});
  const int check = node({gradients}, {tensor("flag")});
  const int update = node({weights, gradients}, {}, {0});
  const int next = node({weight}, {tensor("z")});
  derive_dependencies(graph);
  EXPECT_EQ(deps(check), std::vector<int>{1});
  EXPECT_EQ(deps(update), (std::vector<int>{0, 1}));
  EXPECT_EQ(deps(next), std::vector<int>{update});
}

TEST_F(LoweredGraphTest, BucketsOverlapTheirOwnTensorsAndTheWholeRange) {
  const TensorId a = tensor("da", Role::GRADIENT), b = tensor("db", Role::GRADIENT);
  graph.tensors[std::size_t(a)].bucket = 0;
  graph.tensors[std::size_t(b)].bucket = 1;
  const TensorId first = range(Role::GRADIENT, 0), second = range(Role::GRADIENT, 1),
                 all = range(Role::GRADIENT);
  node({}, {a});
  node({}, {b});
  const int reduce_first = node({first}, {}, {0}), reduce_second = node({second}, {}, {0});
  const int check = node({all}, {tensor("flag")});
  derive_dependencies(graph);
  EXPECT_EQ(deps(reduce_first), std::vector<int>{0});
  EXPECT_EQ(deps(reduce_second), std::vector<int>{1});
  EXPECT_EQ(deps(check), (std::vector<int>{reduce_first, reduce_second}));
}

TEST_F(LoweredGraphTest, FormerNodeOfTheStreamIsAlwaysAnEdge) {
  const TensorId x = tensor("x"), y = tensor("y");
  node({}, {x}, {}, 0);
  node({x}, {y}, {}, 1);
  node({y}, {tensor("z")}, {}, 0);
  derive_dependencies(graph);
  EXPECT_EQ(deps(2), (std::vector<int>{0, 1}));
}

TEST_F(LoweredGraphTest, NoEdgeOfARandomGraphFollowsFromOthersSaveStreamOrder) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    graph = test::RandomGraph::make(seed, 3);
    const Reachability closure(graph);
    std::map<int, int> last;
    for (int n = 0; n < int(graph.nodes.size()); ++n) {
      const int former = last.contains(graph.nodes[std::size_t(n)].stream)
                             ? last[graph.nodes[std::size_t(n)].stream]
                             : -1;
      EXPECT_EQ(closure.without_redundant(deps(n), former), deps(n));
      last[graph.nodes[std::size_t(n)].stream] = n;
    }
  }
}

TEST_F(LoweredGraphTest, VerifyNamesPassAndNodeOfAMissingEdge) {
  const TensorId x = tensor("x"), y = tensor("y");
  node({}, {x});
  node({x}, {y});
  node({x, y}, {tensor("z")});
  derive_dependencies(graph);
  EXPECT_EQ(fault(), "");
  graph.nodes[1].deps.clear();
  const std::string text = fault();
  EXPECT_NE(text.find("after some pass: node 1 \"layer1.op\""), std::string::npos) << text;
  EXPECT_NE(text.find("reads \"x\" and is not ordered after node 0"), std::string::npos) << text;
}

TEST_F(LoweredGraphTest, VerifyCatchesEveryNeededEdgeOfRandomGraphs) {
  int missed = 0, tried = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const LoweredGraph whole = test::RandomGraph::make(seed, 4);
    graph = whole;
    ASSERT_EQ(fault(), "");
    for (std::size_t n = seed; n < whole.nodes.size(); n += 7) {
      if (whole.nodes[n].deps.empty()) continue;
      graph = whole;
      graph.nodes[n].deps.pop_back();
      ++tried;
      missed += fault().empty() ? 1 : 0;
    }
  }
  EXPECT_GT(tried, 100);
  EXPECT_EQ(missed, 0);
}

TEST_F(LoweredGraphTest, VerifyRefusesWhatCannotBe) {
  const TensorId x = tensor("x");
  node({x}, {tensor("y")});
  EXPECT_NE(fault().find("reads \"x\" before any node writes it"), std::string::npos) << fault();

  graph.nodes.clear();
  node({}, {x});
  node({}, {x});
  EXPECT_NE(fault().find("writes \"x\", which node 0 wrote"), std::string::npos) << fault();

  graph.nodes.clear();
  node({}, {99});
  EXPECT_NE(fault().find("an output is tensor 99"), std::string::npos) << fault();

  graph.nodes.clear();
  const TensorId outside = view(x, 128, 256);
  EXPECT_NE(fault().find("is a view of bytes [128, 384) of \"x\", which has 256"),
            std::string::npos)
      << fault();
  graph.tensors[std::size_t(outside)].view_offset = 0;
  view(outside, 0, 16);
  EXPECT_NE(fault().find("is a view of the view"), std::string::npos) << fault();
}

TEST_F(LoweredGraphTest, VerifyRefusesEdgesToLaterNodes) {
  const TensorId x = tensor("x");
  node({}, {x});
  node({x}, {tensor("y")});
  derive_dependencies(graph);
  graph.nodes[0].deps = {1};
  EXPECT_NE(fault().find("node 0 \"layer0.op\": comes after node 1"), std::string::npos) << fault();
}

TEST_F(LoweredGraphTest, TextShowsTensorsNodesAndEdges) {
  const TensorId x = tensor("x");
  node({}, {x});
  node({x, kNoTensor}, {view(x, 0, 256)});
  derive_dependencies(graph);
  const std::string text = graph.text();
  EXPECT_NE(text.find("view of x at 0"), std::string::npos) << text;
  EXPECT_NE(text.find("layer1.op(x, -) -> (x.view)"), std::string::npos) << text;
  EXPECT_NE(text.find("after [0]"), std::string::npos) << text;
}

}  // namespace
}  // namespace tr
