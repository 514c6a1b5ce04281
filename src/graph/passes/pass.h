// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "graph/kernel_oracle.h"
#include "graph/lowered_graph.h"

namespace tr {

/// A pass rewrites the nodes of one variant; shapes are known, kernels are not yet chosen. Each keeps the
/// graph valid: the verifier runs after every one.
using Pass = void (*)(LoweredGraph& graph, const KernelOracle& oracle);

struct NamedPass {
  const char* name;
  Pass run;
};

/// In the order in which lower() runs them.
const std::vector<NamedPass>& all_passes();

void eliminate_identities(LoweredGraph& graph, const KernelOracle& oracle);
void fuse_softmax_loss(LoweredGraph& graph, const KernelOracle& oracle);
void fuse_classifier_loss(LoweredGraph& graph, const KernelOracle& oracle);
void fuse_step_tail(LoweredGraph& graph, const KernelOracle& oracle);
void fuse_fc_activation(LoweredGraph& graph, const KernelOracle& oracle);
void fuse_batch_norm(LoweredGraph& graph, const KernelOracle& oracle);
void compact_strided_gradient(LoweredGraph& graph, const KernelOracle& oracle);
void fuse_norm_pool(LoweredGraph& graph, const KernelOracle& oracle);
void fuse_first_conv(LoweredGraph& graph, const KernelOracle& oracle);
void fuse_conv_statistics(LoweredGraph& graph, const KernelOracle& oracle);
void share_relu_mask(LoweredGraph& graph, const KernelOracle& oracle);
void eliminate_dead_code(LoweredGraph& graph, const KernelOracle& oracle);

/// Who reads and who writes each tensor, as node numbers. Rebuilt after a rewrite.
class Uses {
 public:
  explicit Uses(const LoweredGraph& graph);
  /// Nodes that read the tensor's bytes or its type.
  const std::vector<int>& readers(TensorId id) const { return readers_[std::size_t(id)]; }
  /// The node that writes it, -1 for persistent tensors nobody writes; the last one if several do.
  int writer(TensorId id) const { return writer_[std::size_t(id)]; }
  /// The only reader, -1 if there are none or several.
  int sole_reader(TensorId id) const { return readers(id).size() == 1 ? readers(id).front() : -1; }

 private:
  std::vector<std::vector<int>> readers_;
  std::vector<int> writer_;
};

/// Removes the nodes marked true.
void remove_nodes(LoweredGraph& graph, const std::vector<bool>& gone);

/// Types of a node's tensors; a missing optional input has the type of rank 0.
std::vector<TensorType> types_of(const LoweredGraph& graph, const std::vector<TensorId>& ids);

}  // namespace tr
