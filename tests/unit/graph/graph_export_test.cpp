// SPDX-License-Identifier: Apache-2.0
// Graphs as users see them: JSON that says what the graph has, and dot that graphviz would read.
#include "graph/graph_export.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "support/dot_parser.h"

namespace tr {
namespace {

/// Three nodes, the last behind both others; names with everything that could break a string.
LoweredGraph small_graph() {
  LoweredGraph graph;
  const auto tensor = [&](std::string name, Role role, std::int64_t bytes) {
    LoweredTensor t;
    t.name = std::move(name);
    t.role = role;
    t.bytes = bytes;
    graph.tensors.push_back(std::move(t));
    return TensorId(graph.tensors.size() - 1);
  };
  const TensorId x = tensor("image", Role::INPUT, 400), weight = tensor("w", Role::WEIGHT, 1000);
  const TensorId y = tensor("y", Role::FEATURE, 80), z = tensor("z", Role::FEATURE, 40);
  const TensorId workspace = tensor("workspace", Role::WORKSPACE, 4096);
  const auto node = [&](const char* op, const char* layer, std::vector<TensorId> inputs,
                        std::vector<TensorId> outputs) -> LoweredNode& {
    LoweredNode n;
    n.op = op;
    n.layer = layer;
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    n.stream = int(StreamKind::COMP_1);
    return graph.nodes.emplace_back(std::move(n));
  };
  node("fc", "a \"quoted\\ name", {x, weight, kNoTensor}, {y}).workspace = workspace;
  node("relu", "", {y}, {z}).stream = int(StreamKind::COMP_2);
  LoweredNode& update = node("sgd", "", {weight, z}, {});
  update.state_writes = {0};
  update.label = GraphId::OPTIMIZER;
  graph.nodes[1].deps = {0};
  graph.nodes[2].deps = {0, 1};
  return graph;
}

TEST(GraphExport, BytesAreThoseOfOperandsOutputsAndState) {
  const LoweredGraph graph = small_graph();
  const NodeBytes fc = bytes_of(graph, graph.nodes[0]), sgd = bytes_of(graph, graph.nodes[2]);
  EXPECT_EQ(fc.read, 1400);
  EXPECT_EQ(fc.written, 80);
  EXPECT_EQ(sgd.read, 1040);
  EXPECT_EQ(sgd.written, 1000);
}

TEST(GraphExport, JsonHasEveryNodeAndEdge) {
  const LoweredGraph graph = small_graph();
  const ShownGraph shown[] = {{"train", &graph}, {"timed", &graph, {1e-6, 2e-6, 3e-6}}};
  const auto json = nlohmann::json::parse(graphs_json(shown)).at("graphs");
  ASSERT_EQ(json.size(), 2u);
  const auto& nodes = json[0].at("nodes");
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].at("layer"), "a \"quoted\\ name");
  EXPECT_EQ(nodes[0].at("workspace_bytes"), 4096);
  EXPECT_EQ(nodes[0].at("inputs"), (std::vector<std::string>{"image", "w"}));
  EXPECT_EQ(nodes[1].at("stream"), "COMP_2");
  EXPECT_EQ(nodes[2].at("stage"), name_of(GraphId::OPTIMIZER));
  EXPECT_EQ(nodes[2].at("after"), (std::vector<int>{0, 1}));
  EXPECT_FALSE(nodes[0].contains("us"));
  EXPECT_DOUBLE_EQ(json[1].at("nodes")[2].at("us").get<double>(), 3.0);
}

TEST(GraphExport, DotIsOneThatGraphvizReads) {
  const LoweredGraph graph = small_graph();
  const ShownGraph shown[] = {{"train \"x\"", &graph}, {"timed", &graph, {1e-6, 2e-6, 3e-6}}};
  const test::DotGraph dot = test::parse_dot(graphs_dot(shown));
  EXPECT_EQ(dot.clusters, (std::vector<std::string>{"train \"x\"", "timed"}));
  ASSERT_EQ(dot.nodes.size(), 6u);
  EXPECT_EQ(dot.edges.size(), 6u);
  for (const auto& [from, to] : dot.edges) {
    EXPECT_TRUE(dot.nodes.contains(from)) << from;
    EXPECT_TRUE(dot.nodes.contains(to)) << to;
  }
  const std::string& fc = dot.nodes.at("n0_0");
  EXPECT_TRUE(fc.find("a \"quoted\\ name") != std::string::npos) << fc;
  EXPECT_TRUE(fc.find("workspace 4.00 KiB") != std::string::npos) << fc;
  EXPECT_TRUE(fc.find(" us") == std::string::npos) << fc;
  EXPECT_TRUE(dot.nodes.at("n1_2").find("3.00 us") != std::string::npos);
}

TEST(GraphExport, TheParserRefusesWhatGraphvizWould) {
  for (const char* wrong : {"", "digraph {", "digraph g { a -> }", "digraph g { a [label=] }",
                            "digraph g { a [label=\"x] }", "digraph g { a [label=\"x\" }",
                            "digraph g { 1a b }", "graph g { a }", "digraph g { a }; }"}) {
    EXPECT_THROW(test::parse_dot(wrong), std::invalid_argument) << wrong;
  }
  const test::DotGraph good =
      test::parse_dot("digraph g { a -> b [color=red]; b [label=\"\\\"\"] }");
  EXPECT_EQ(good.edges.size(), 1u);
  EXPECT_EQ(good.nodes.at("b"), "\"");
}

}  // namespace
}  // namespace tr
