// SPDX-License-Identifier: Apache-2.0
#include "graph/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "model_graphs.h"
#include "plan_checker.h"
#include "random_graph.h"
#include "renaissance/core/error.h"

namespace tr {
namespace {

using test::PlanChecker;
using test::RandomGraph;

constexpr int kGraphs = 200;

double ratio(const MemoryPlan& plan, const LoweredGraph& graph) {
  return double(plan.transient_bytes) / double(transient_lower_bound(graph));
}

TEST(MemoryPlan, TensorsThatShareBytesAreOrderedInRandomGraphs) {
  double sum = 0, worst = 0;
  std::size_t fewest = 1000, most = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LoweredGraph graph = RandomGraph::make(std::uint64_t(seed));
    verify(graph, "random graph");
    const MemoryPlan plan = plan_transients(graph, 4096, {});
    verify(graph, "memory plan");
    ASSERT_EQ(PlanChecker(graph).fault(plan), "");
    ASSERT_GE(plan.transient_bytes, transient_lower_bound(graph));
    sum += ratio(plan, graph);
    worst = std::max(worst, ratio(plan, graph));
    fewest = std::min(fewest, graph.nodes.size());
    most = std::max(most, graph.nodes.size());
  }
  std::printf("%d random graphs of %zu to %zu nodes: mean ratio to the bound %.3f, worst %.3f\n",
              kGraphs, fewest, most, sum / kGraphs, worst);
}

TEST(MemoryPlan, EveryReaderSeesWhatItsProducerWroteInAnyOrder) {
  for (int seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LoweredGraph graph = RandomGraph::make(std::uint64_t(seed));
    const auto expected = test::seen_without_sharing(graph);
    const MemoryPlan plan = plan_transients(graph, 0, {});
    for (std::uint64_t order = 0; order < 3; ++order) {
      ASSERT_EQ(test::seen_in_random_order(graph, plan, order), expected) << "order " << order;
    }
  }
}

TEST(MemoryPlan, EqualGraphsGetEqualPlans) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    LoweredGraph a = RandomGraph::make(seed), b = RandomGraph::make(seed);
    const MemoryPlan x = plan_transients(a, 256, {}), y = plan_transients(b, 256, {});
    EXPECT_EQ(x.offsets, y.offsets) << "seed " << seed;
    EXPECT_EQ(x.transient_bytes, y.transient_bytes);
    EXPECT_EQ(a.text(), b.text());
  }
}

/// Edges of `planned` that `before` lacks: those that the planner added.
std::vector<std::pair<int, int>> added_edges(const LoweredGraph& before,
                                             const LoweredGraph& planned) {
  std::vector<std::pair<int, int>> added;
  for (int n = 0; n < int(planned.nodes.size()); ++n) {
    const auto &old = before.nodes[std::size_t(n)].deps, &now = planned.nodes[std::size_t(n)].deps;
    for (const int dep : now) {
      if (!std::binary_search(old.begin(), old.end(), dep)) added.emplace_back(dep, n);
    }
  }
  return added;
}

TEST(MemoryPlan, DroppingOneEdgeThatThePlannerAddedIsCaught) {
  int dropped = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const LoweredGraph before = RandomGraph::make(seed, 3);
    LoweredGraph planned = before;
    const MemoryPlan plan = plan_transients(planned, 0, {});
    const auto added = added_edges(before, planned);
    for (std::size_t i = 0; i < added.size(); i += 1 + added.size() / 5) {
      LoweredGraph broken = planned;
      std::erase(broken.nodes[std::size_t(added[i].second)].deps, added[i].first);
      EXPECT_NE(PlanChecker(broken).fault(plan), "")
          << "seed " << seed << ", edge " << added[i].first << " -> " << added[i].second;
      ++dropped;
    }
  }
  EXPECT_GT(dropped, 50);
}

TEST(MemoryPlan, PlanOfAGraphThatLacksItsEdgesIsCaught) {
  // The planner is given an order that the real graph does not have: a whole stream edge too many.
  int caught = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    LoweredGraph real = RandomGraph::make(seed, 2), pretended = real;
    for (LoweredNode& node : pretended.nodes) node.stream = 0;
    derive_dependencies(pretended);
    const MemoryPlan plan = plan_transients(pretended, 0, {});
    const auto expected = test::seen_without_sharing(real);
    bool wrong_bytes = false;
    for (std::uint64_t order = 0; order < 5; ++order) {
      wrong_bytes = wrong_bytes || test::seen_in_random_order(real, plan, order) != expected;
    }
    const bool fault = !PlanChecker(real).fault(plan).empty();
    EXPECT_TRUE(fault || !wrong_bytes)
        << "seed " << seed << ": the checker misses what a run shows";
    caught += fault && wrong_bytes ? 1 : 0;
  }
  EXPECT_GT(caught, 30);
}

TEST(MemoryPlan, WithoutAddedEdgesTheGraphStaysAndThePlanIsSound) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const LoweredGraph before = RandomGraph::make(seed, 4);
    LoweredGraph graph = before;
    const MemoryPlan plan = plan_transients(graph, 0, {.add_edges = false});
    EXPECT_EQ(PlanChecker(graph).fault(plan), "");
    EXPECT_EQ(graph.text(), before.text());
  }
}

struct Model {
  const char* name;
  LoweredGraph (*make)(std::int64_t batch);
  std::int64_t batch;
};

class ModelPlan : public testing::TestWithParam<Model> {};

TEST_P(ModelPlan, StaysNearTheLowerBound) {
  LoweredGraph graph = GetParam().make(GetParam().batch);
  const auto start = std::chrono::steady_clock::now();
  const MemoryPlan plan = plan_transients(graph, 0, {});
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(PlanChecker(graph).fault(plan), "");
  EXPECT_LE(ratio(plan, graph), 1.03);
  std::printf("%s: %zu nodes, %.1f MiB, ratio %.4f, planned in %.1f ms\n", GetParam().name,
              graph.nodes.size(), double(plan.transient_bytes) / (1 << 20), ratio(plan, graph),
              ms.count());
}

TEST_P(ModelPlan, StaysNearTheBoundWithWeightGradientsOnAStreamOfTheirOwn) {
  LoweredGraph graph = GetParam().make(GetParam().batch);
  for (LoweredNode& node : graph.nodes) node.stream = node.op == "conv_dweight" ? 1 : 0;
  derive_dependencies(graph);
  const MemoryPlan plan = plan_transients(graph, 0, {});
  EXPECT_EQ(PlanChecker(graph).fault(plan), "");
  EXPECT_LE(ratio(plan, graph), 1.10);
}

TEST_P(ModelPlan, WithoutReuseIsFarFromTheBound) {
  LoweredGraph graph = GetParam().make(GetParam().batch);
  const MemoryPlan plan = plan_transients(graph, 0, {.reuse = false});
  EXPECT_GT(ratio(plan, graph), 1.10);
}

INSTANTIATE_TEST_SUITE_P(Networks, ModelPlan,
                         testing::Values(Model{"resnet50", test::resnet50_graph, 256},
                                         Model{"vgg16", test::vgg16_graph, 256},
                                         Model{"densenet121", test::densenet121_graph, 64},
                                         Model{"mlp", test::mlp_graph, 200}),
                         [](const auto& param) { return std::string(param.param.name); });

LoweredTensor tensor(std::string name, std::int64_t bytes, Role role = Role::FEATURE) {
  LoweredTensor t;
  t.name = std::move(name);
  t.role = role;
  t.type = {Shape{bytes}, DType::UINT8};
  t.bytes = bytes;
  return t;
}

LoweredNode node(std::string op, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
                 int stream = 0) {
  LoweredNode n;
  n.op = std::move(op);
  n.layer = "layer";
  n.inputs = std::move(inputs);
  n.outputs = std::move(outputs);
  n.stream = stream;
  return n;
}

/// a -> b -> c -> d, each 1000 bytes.
LoweredGraph chain(bool in_place) {
  LoweredGraph graph;
  for (const char* name : {"a", "b", "c", "d"}) graph.tensors.push_back(tensor(name, 1000));
  graph.nodes = {node("first", {}, {0}), node("op", {0}, {1}), node("op", {1}, {2}),
                 node("op", {2}, {3})};
  for (LoweredNode& n : graph.nodes) {
    if (in_place && !n.inputs.empty()) n.in_place = {{0, 0}};
  }
  derive_dependencies(graph);
  return graph;
}

TEST(MemoryPlan, ChainUsesTwoPlacesOrOneInPlace) {
  LoweredGraph plain = chain(false), merged = chain(true);
  EXPECT_EQ(plan_transients(plain, 0, {}).transient_bytes, 2048);
  EXPECT_EQ(transient_lower_bound(plain), 2000);
  const MemoryPlan plan = plan_transients(merged, 512, {});
  EXPECT_EQ(plan.transient_bytes, 1024);
  EXPECT_EQ(plan.offsets, (std::vector<std::int64_t>{512, 512, 512, 512}));
  EXPECT_EQ(transient_lower_bound(merged), 1000);
  EXPECT_EQ(plan_transients(merged, 0, {.in_place = false}).transient_bytes, 2048);
}

TEST(MemoryPlan, InPlaceIsRefusedWhileTheInputIsStillRead) {
  LoweredGraph graph = chain(true);
  graph.nodes[3].inputs.push_back(0);  // a is read again at the end
  derive_dependencies(graph);
  const MemoryPlan plan = plan_transients(graph, 0, {});
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.offsets[1], plan.offsets[2]);
  EXPECT_EQ(transient_lower_bound(graph), 2000);
}

TEST(MemoryPlan, EdgeIsAddedBetweenStreamsWhereBytesAreShared) {
  LoweredGraph graph;
  for (const char* name : {"a", "a.out", "b", "b.out"}) graph.tensors.push_back(tensor(name, 1000));
  graph.nodes = {node("op", {}, {0}, 0), node("op", {0}, {1}, 0), node("op", {}, {2}, 1),
                 node("op", {2}, {3}, 1)};
  derive_dependencies(graph);
  LoweredGraph refused = graph;
  EXPECT_EQ(plan_transients(refused, 0, {.add_edges = false}).transient_bytes, 4096);
  EXPECT_EQ(plan_transients(graph, 0, {}).transient_bytes, 2048);
  EXPECT_EQ(graph.nodes[2].deps, std::vector<int>{1});
}

TEST(MemoryPlan, ViewsLieInTheirOwner) {
  LoweredGraph graph;
  graph.tensors = {tensor("whole", 1024), tensor("high", 512), tensor("out", 512)};
  graph.tensors[1].view_of = 0;
  graph.tensors[1].view_offset = 512;
  graph.nodes = {node("first", {}, {0}), node("op", {1}, {2})};
  derive_dependencies(graph);
  const MemoryPlan plan = plan_transients(graph, 256, {});
  EXPECT_EQ(plan.offsets[1], plan.offsets[0] + 512);
  EXPECT_EQ(plan.transient_bytes, 1536);
  EXPECT_EQ(plan.placements.size(), 2u);
}

TEST(MemoryPlan, OverBudgetNamesThePeakAndTheLargest) {
  LoweredGraph graph = test::resnet50_graph(32);
  try {
    plan_transients(graph, 256, {.budget_bytes = 1 << 20});
    FAIL() << "a plan of more than 1 MiB was accepted";
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("the plan needs "), std::string::npos) << text;
    EXPECT_NE(text.find("the budget is 1.00 MiB. Largest tensors at the peak (step "),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("live "), std::string::npos) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 11) << text;
  }
}

TEST(MemoryPlan, LargestAtPeakAreSortedAndLiveThere) {
  LoweredGraph graph = test::vgg16_graph(8);
  const MemoryPlan plan = plan_transients(graph, 0, {});
  const int step = peak_node(plan);
  const std::vector<Placement> largest = live_at_peak(graph, plan);
  ASSERT_EQ(largest.size(), 10u);
  for (std::size_t i = 0; i < largest.size(); ++i) {
    EXPECT_LE(largest[i].first_use, step);
    EXPECT_GE(largest[i].last_use, step);
    EXPECT_GE(largest[i > 0 ? i - 1 : 0].bytes, largest[i].bytes);
  }
  EXPECT_EQ(largest_at_peak(graph, plan).size(), 10u);
  EXPECT_LE(live_at_peak(graph, plan, 3).size(), 3u);
}

TEST(MemoryPlan, GraphWithoutTransientsNeedsNothing) {
  LoweredGraph graph;
  graph.tensors = {tensor("state", 64, Role::SCALAR)};
  graph.nodes = {node("op", {0}, {})};
  const MemoryPlan plan = plan_transients(graph, 1024, {.budget_bytes = 1024});
  EXPECT_EQ(plan.transient_bytes, 0);
  EXPECT_EQ(transient_lower_bound(graph), 0);
  EXPECT_EQ(peak_node(plan), -1);
}

}  // namespace
}  // namespace tr
