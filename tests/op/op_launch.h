// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "backend/executor.h"
#include "graph/computation_graph.h"
#include "op/op_harness.h"

namespace tr::test {

/// A case's op and, if it has inputs to differentiate, its gradient as one graph, compiled once for
/// a device and launched as often as wanted. Results are the outputs, then a gradient for each
/// input, empty where there is none; they hold NaN before each launch.
class OpLaunch {
 public:
  OpLaunch(const OpCase& c, DType dtype, TaskDevice device);
  OpLaunch(const OpLaunch&) = delete;
  OpLaunch& operator=(const OpLaunch&) = delete;

  /// The whole graph as the executor replays it.
  std::vector<Tensor> captured();
  /// Node by node.
  std::vector<Tensor> eager();

 private:
  std::vector<TensorId> add_gradient(const OpCase& c, const std::vector<TensorId>& in,
                                     const std::vector<TensorId>& out);
  TensorId place(const Tensor& tensor, const std::string& name);
  std::vector<Tensor> launch(bool profiled);

  ComputationGraph graph_;
  GraphBuilder builder_{graph_};
  std::vector<std::pair<TensorId, Tensor>> given_;
  std::vector<TensorId> results_;
  std::vector<TensorType> types_;
  CompileResult compiled_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace tr::test
