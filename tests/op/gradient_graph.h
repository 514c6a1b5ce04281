// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/computation_graph.h"
#include "graph/memory_plan.h"
#include "renaissance/tensor/tensor.h"

namespace tr::test {

/// A graph made by hand, with its backward pass, compiled and run once on the CPU.
class GradientGraph {
 public:
  GradientGraph() : builder_(graph_) { builder_.at(GraphId::FORWARD, "program"); }

  GraphBuilder& builder() { return builder_; }
  /// A tensor that is given; kNoTensor for an empty one.
  TensorId place(const std::string& name, const Tensor& tensor);

  /// Gradients of `wanted`, which are given fp32 tensors; an empty one where none reaches it.
  /// `seeds` maps tensors of the graph to their gradients. To be called once.
  std::vector<Tensor> run(const std::vector<std::pair<TensorId, TensorId>>& seeds,
                          const std::vector<TensorId>& wanted, int threads = 1,
                          const PlanOptions& memory = {});

 private:
  ComputationGraph graph_;
  GraphBuilder builder_;
  std::vector<std::pair<TensorId, Tensor>> given_;
};

}  // namespace tr::test
