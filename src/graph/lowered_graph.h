// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/computation_graph.h"

namespace tr {

/// A tensor of one variant: shape known, place not yet.
struct LoweredTensor {
  std::string name;
  Role role = Role::FEATURE;
  TensorType type;
  std::int64_t bytes = 0;
  TensorId view_of = kNoTensor;       // shares the bytes of that tensor (chains are resolved: never a view itself)
  std::int64_t view_offset = 0;       // bytes
  TensorId logical = kNoTensor;       // id in the ComputationGraph; kNoTensor for workspaces
  int param = -1;
  int range_role = -1;                // >= 0: the whole range of that Role, or one bucket of it
  int bucket = -1;
};

struct LoweredNode {
  std::string op;
  Attrs attrs;
  std::vector<TensorId> inputs;       // kNoTensor for a missing optional one
  std::vector<TensorId> outputs;
  TensorId workspace = kNoTensor;
  std::string kernel;                 // the chosen kernel's name
  GraphId label = GraphId::FORWARD;
  std::string layer;
  Where where;
  int stream = 0;                     // index of StreamKind
  std::vector<int> deps;              // nodes that must end before this one starts, sorted; includes the
                                      // former node of the same stream
  std::vector<std::pair<int, int>> in_place;  // (output, input) pairs that the kernel allows
  std::vector<int> state_writes;      // inputs that the node writes too
  bool again = false;                 // a node of the forward pass that runs again (graph/recompute.h)
};

/// What the executor replays: shapes, fused nodes, kernels, streams and edges of one variant.
struct LoweredGraph {
  std::vector<LoweredTensor> tensors;
  std::vector<LoweredNode> nodes;     // in a topological order

  const LoweredTensor& tensor(TensorId id) const { return tensors.at(std::size_t(id)); }
  std::string text() const;
};

/// Sets `deps` of every node from reads, writes and aliases, in program order: read after write, write
/// after read, write after write; and the former node of the same stream. Redundant edges are left out.
void derive_dependencies(LoweredGraph& graph);

/// Checks ids, aliases, topological order, and that every conflicting pair of accesses is ordered.
/// @throws InternalError  naming the pass and the offending node.
void verify(const LoweredGraph& graph, std::string_view after_pass);

}  // namespace tr
