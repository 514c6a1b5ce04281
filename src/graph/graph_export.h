// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/lowered_graph.h"

namespace tr {

/// "COMP_1": name of a StreamKind by its index.
std::string_view name_of_stream(int stream);

/// A lowered graph as it is shown to users.
struct ShownGraph {
  std::string name;  // "train_base"
  const LoweredGraph* graph = nullptr;
  std::vector<double> node_seconds = {};  // measured, by node; empty: not measured
};

/// Bytes of the tensors that a node reads (each operand once) and writes (outputs, and state that
/// it changes).
struct NodeBytes {
  std::int64_t read = 0, written = 0;
};
NodeBytes bytes_of(const LoweredGraph& graph, const LoweredNode& node);

/// {"graphs": [{"name", "nodes": [{"id", "op", "layer", "where", "kernel", "stage", "stream",
/// "bytes_read", "bytes_written", "workspace_bytes", "inputs", "outputs", "after": [ids], "us":
/// only where measured}]}]}
std::string graphs_json(std::span<const ShownGraph> graphs);

/// The same for graphviz: one cluster a graph, an edge for each dependency.
std::string graphs_dot(std::span<const ShownGraph> graphs);

}  // namespace tr
