// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "graph/lowered_graph.h"

namespace tr {

/// One use of a tensor by a node.
struct Access {
  TensorId tensor = kNoTensor;
  bool writes = false;  // else it only reads
};

/// What a node reads and writes: inputs, state writes, outputs, workspace. An output that is a view
/// of the bytes of one of the node's own inputs (flatten, identity) is no write: nothing is moved.
std::vector<Access> accesses_of(const LoweredGraph& graph, const LoweredNode& node);

/// Owner of the tensor's bytes: itself, or what it is a view of.
inline TensorId owner_of(const LoweredGraph& graph, TensorId id) {
  const TensorId owner = graph.tensor(id).view_of;
  return owner == kNoTensor ? id : owner;
}

/// Which tensors of a lowered graph share bytes by construction: views, and ranges with the tensors
/// of their role. (A tensor of unknown bucket is taken to overlap every bucket.)
class Aliases {
 public:
  explicit Aliases(const LoweredGraph& graph);

  /// Tensors of different groups never overlap.
  int group(TensorId id) const { return group_[std::size_t(id)]; }
  int num_groups() const { return num_groups_; }
  bool overlap(TensorId a, TensorId b) const;
  /// True if every byte of `inner` is one of `outer`.
  bool covers(TensorId outer, TensorId inner) const;

 private:
  const LoweredGraph& graph_;
  std::vector<int> group_;
  int num_groups_ = 0;
};

}  // namespace tr
