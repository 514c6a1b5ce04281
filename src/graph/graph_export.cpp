// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_export.h"

#include <array>
#include <nlohmann/json.hpp>

#include "core/format.h"
#include "core/human.h"

namespace tr {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t workspace_bytes(const LoweredGraph& graph, const LoweredNode& node) {
  return node.workspace == kNoTensor ? 0 : graph.tensor(node.workspace).bytes;
}

Json names_of(const LoweredGraph& graph, const std::vector<TensorId>& ids) {
  Json names = Json::array();
  for (const TensorId id : ids) {
    if (id != kNoTensor) names.push_back(graph.tensor(id).name);
  }
  return names;
}

Json node_json(const ShownGraph& shown, std::size_t index) {
  const LoweredNode& node = shown.graph->nodes[index];
  const NodeBytes bytes = bytes_of(*shown.graph, node);
  Json json = {{"id", index},
               {"op", node.op},
               {"layer", node.layer},
               {"where", node.where.empty() ? "" : node.where.str()},
               {"kernel", node.kernel},
               {"stage", name_of(node.label)},
               {"stream", name_of_stream(node.stream)},
               {"bytes_read", bytes.read},
               {"bytes_written", bytes.written},
               {"workspace_bytes", workspace_bytes(*shown.graph, node)},
               {"inputs", names_of(*shown.graph, node.inputs)},
               {"outputs", names_of(*shown.graph, node.outputs)},
               {"after", node.deps}};
  if (!shown.node_seconds.empty()) json["us"] = shown.node_seconds.at(index) * 1e6;
  return json;
}

/// A string of the dot language.
std::string dot_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + "\"";
}

/// Colours of an X11 scheme that every graphviz knows, by stage.
constexpr std::array<std::string_view, kNumGraphIds> kStageColours = {
    "gray90",     "lightblue", "khaki",    "palegreen", "palegreen", "plum",
    "lightcoral", "orange",    "moccasin", "moccasin",  "lavender",  "lavender"};

std::string dot_node(const ShownGraph& shown, std::size_t graph, std::size_t index) {
  const LoweredNode& node = shown.graph->nodes[index];
  const NodeBytes bytes = bytes_of(*shown.graph, node);
  std::string label = fmt::format("{:03} {}", index, node.op);
  if (!node.layer.empty()) label += fmt::format("\nlayer {}", node.layer);
  label +=
      fmt::format("\n{}, {}\nreads {}, writes {}", name_of(node.label), name_of_stream(node.stream),
                  format_bytes(bytes.read), format_bytes(bytes.written));
  const std::int64_t workspace = workspace_bytes(*shown.graph, node);
  if (workspace > 0) label += fmt::format("\nworkspace {}", format_bytes(workspace));
  if (!shown.node_seconds.empty())
    label += fmt::format("\n{:.2f} us", shown.node_seconds.at(index) * 1e6);
  return fmt::format("    n{}_{} [label={}, fillcolor={}];\n", graph, index, dot_string(label),
                     dot_string(kStageColours.at(std::size_t(node.label))));
}

}  // namespace

std::string_view name_of_stream(int stream) {
  constexpr std::array<std::string_view, 5> kNames = {"TRANS", "COMP_1", "COMP_2", "COMP_3",
                                                      "UPDATE"};
  return kNames.at(std::size_t(stream));
}

NodeBytes bytes_of(const LoweredGraph& graph, const LoweredNode& node) {
  NodeBytes bytes;
  for (const TensorId id : node.inputs) {
    if (id != kNoTensor) bytes.read += graph.tensor(id).bytes;
  }
  for (const TensorId id : node.outputs) {
    if (id != kNoTensor) bytes.written += graph.tensor(id).bytes;
  }
  for (const int input : node.state_writes) {
    const TensorId id =
        std::size_t(input) < node.inputs.size() ? node.inputs[std::size_t(input)] : kNoTensor;
    if (id != kNoTensor) bytes.written += graph.tensor(id).bytes;
  }
  return bytes;
}

std::string graphs_json(std::span<const ShownGraph> graphs) {
  Json list = Json::array();
  for (const ShownGraph& shown : graphs) {
    Json nodes = Json::array();
    for (std::size_t i = 0; i < shown.graph->nodes.size(); ++i)
      nodes.push_back(node_json(shown, i));
    list.push_back({{"name", shown.name}, {"nodes", std::move(nodes)}});
  }
  return Json{{"graphs", std::move(list)}}.dump(1) + "\n";
}

std::string graphs_dot(std::span<const ShownGraph> graphs) {
  std::string text =
      "digraph renaissance {\n  rankdir=TB;\n"
      "  node [shape=box, style=filled, fontname=\"monospace\", fontsize=10];\n";
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    const std::vector<LoweredNode>& nodes = graphs[g].graph->nodes;
    text += fmt::format("  subgraph cluster_{} {{\n    label={};\n", g, dot_string(graphs[g].name));
    for (std::size_t i = 0; i < nodes.size(); ++i) text += dot_node(graphs[g], g, i);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const int before : nodes[i].deps)
        text += fmt::format("    n{}_{} -> n{}_{};\n", g, before, g, i);
    }
    text += "  }\n";
  }
  return text + "}\n";
}

}  // namespace tr
