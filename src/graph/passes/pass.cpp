// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/pass.h"

#include <algorithm>

namespace tr {

const std::vector<NamedPass>& all_passes() {
  static const std::vector<NamedPass> passes = {
      {"eliminate_identities", eliminate_identities},
      {"fuse_softmax_loss", fuse_softmax_loss},
      {"fuse_fc_activation", fuse_fc_activation},
      {"fuse_classifier_loss", fuse_classifier_loss},
      {"eliminate_dead_code", eliminate_dead_code},
      {"fuse_batch_norm", fuse_batch_norm},
      {"compact_strided_gradient", compact_strided_gradient},
      {"fuse_norm_pool", fuse_norm_pool},
      {"fuse_first_conv", fuse_first_conv},
      {"fuse_conv_statistics", fuse_conv_statistics},
      {"fuse_step_tail", fuse_step_tail},
      {"share_relu_mask", share_relu_mask}};
  return passes;
}

Uses::Uses(const LoweredGraph& graph)
    : readers_(graph.tensors.size()), writer_(graph.tensors.size(), -1) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const LoweredNode& node = graph.nodes[n];
    for (const TensorId id : node.inputs) {
      if (id == kNoTensor) continue;
      std::vector<int>& readers = readers_[std::size_t(id)];
      if (readers.empty() || readers.back() != int(n)) readers.push_back(int(n));
    }
    for (const TensorId id : node.outputs) writer_[std::size_t(id)] = int(n);
  }
}

void remove_nodes(LoweredGraph& graph, const std::vector<bool>& gone) {
  std::vector<LoweredNode> kept;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!gone[n]) kept.push_back(std::move(graph.nodes[n]));
  }
  graph.nodes = std::move(kept);
}

std::vector<TensorType> types_of(const LoweredGraph& graph, const std::vector<TensorId>& ids) {
  std::vector<TensorType> types;
  for (const TensorId id : ids)
    types.push_back(id == kNoTensor ? TensorType{} : graph.tensor(id).type);
  return types;
}

}  // namespace tr
