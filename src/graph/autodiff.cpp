// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "core/check.h"
#include "core/format.h"
#include "graph/computation_graph.h"

namespace tr {
namespace {

/// One backward pass over a graph: walks the forward nodes in reverse, asks each op's rule, sums
/// what reaches one tensor on several ways.
class Backward {
 public:
  Backward(GraphBuilder& builder, std::span<const std::pair<TensorId, TensorId>> seeds,
           std::span<const TensorId> wanted)
      : builder_(builder), num_forward_(builder.graph().nodes.size()) {
    mark_dependents(wanted);
    for (const auto& [tensor, gradient] : seeds) partial_[tensor].push_back(gradient);
    for (std::size_t i = num_forward_; i-- > 0;) visit(i);
    for (const TensorId id : wanted) result_.push_back(sum(id));
  }

  std::vector<TensorId> result() { return std::move(result_); }

 private:
  /// A gradient is wanted for every tensor that depends on a wanted one.
  void mark_dependents(std::span<const TensorId> wanted) {
    needs_.assign(builder_.graph().tensors.size(), false);
    for (const TensorId id : wanted) needs_[std::size_t(id)] = true;
    for (const Node& node : builder_.graph().nodes) {
      if (!depends(node)) continue;
      for (const TensorId id : node.outputs) needs_[std::size_t(id)] = true;
    }
  }

  /// Inputs of which an op sees the type alone carry nothing.
  bool depends(const Node& node) const {
    const int read = OpRegistry::instance().get(node.op).type_only_from;
    const std::size_t count = read < 0 ? node.inputs.size() : std::size_t(read);
    for (std::size_t i = 0; i < std::min(count, node.inputs.size()); ++i) {
      const TensorId id = node.inputs[i];
      if (id != kNoTensor && std::size_t(id) < needs_.size() && needs_[std::size_t(id)])
        return true;
    }
    return false;
  }

  void visit(std::size_t index) {
    const Node node = builder_.graph().nodes[index];  // a copy: the rule appends nodes
    if (!depends(node)) return;
    builder_.at(GraphId::BACKWARD, node.layer, node.where);
    std::vector<TensorId> dout;
    bool reached = false;
    for (const TensorId id : node.outputs) {
      dout.push_back(sum(id));
      reached = reached || dout.back() != kNoTensor;
    }
    if (!reached) return;

    const OpDef& def = OpRegistry::instance().get(node.op);
    if (!def.gradient) {
      throw_as<Unsupported>(
          "{}: the op has no gradient rule, but a trained parameter lies before it\n  in layer "
          "\"{}\"{}",
          node.op, node.layer, node.where.empty() ? "" : ", built at " + node.where.str());
    }
    const std::vector<TensorId> gradients = def.gradient(builder_, node, dout);
    TR_ASSERT(gradients.size() <= node.inputs.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const TensorId input = node.inputs[i];
      if (gradients[i] == kNoTensor || input == kNoTensor || !needs_[std::size_t(input)]) continue;
      partial_[input].push_back(gradients[i]);
    }
  }

  /// The gradient of a tensor once all its users were visited.
  TensorId sum(TensorId id) {
    const auto it = partial_.find(id);
    if (it == partial_.end()) return kNoTensor;
    std::vector<TensorId>& parts = it->second;
    while (parts.size() > 1) {
      const TensorId total = builder_.add("add", {parts[0], parts[1]});
      parts.erase(parts.begin(), parts.begin() + 1);
      parts[0] = total;
    }
    const ComputationGraph& graph = builder_.graph();
    if (graph.tensor(parts[0]).role == Role::FEATURE_GRAD &&
        !graph.tensor(parts[0]).name.starts_with("d(")) {
      builder_.rename(parts[0], "d(" + graph.tensor(id).name + ")");
    }
    return parts[0];
  }

  GraphBuilder& builder_;
  std::size_t num_forward_;
  std::vector<bool> needs_;
  std::map<TensorId, std::vector<TensorId>> partial_;
  std::vector<TensorId> result_;
};

}  // namespace

std::vector<TensorId> append_backward(GraphBuilder& builder,
                                      std::span<const std::pair<TensorId, TensorId>> seeds,
                                      std::span<const TensorId> wanted) {
  return Backward(builder, seeds, wanted).result();
}

}  // namespace tr
