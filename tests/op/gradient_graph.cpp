// SPDX-License-Identifier: Apache-2.0
#include "op/gradient_graph.h"

#include "backend/executor.h"
#include "graph/graph_atlas.h"
#include "task/device.h"
#include "task/graph_assembly.h"

namespace tr::test {

TensorId GradientGraph::place(const std::string& name, const Tensor& tensor) {
  if (tensor.empty()) return kNoTensor;
  const TensorId id = builder_.persistent(name, Role::RESULT, tensor.type());
  given_.emplace_back(id, tensor);
  return id;
}

std::vector<Tensor> GradientGraph::run(const std::vector<std::pair<TensorId, TensorId>>& seeds,
                                       const std::vector<TensorId>& wanted, int threads,
                                       const PlanOptions& memory) {
  builder_.at(GraphId::BACKWARD, "program");
  const std::vector<TensorId> gradients = append_backward(builder_, seeds, wanted);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i] == kNoTensor) continue;
    // An input may have the seed itself as its gradient: a copy is the result.
    const TensorId copy = builder_.add("affine", {gradients[i]});
    LogicalTensor& tensor = graph_.tensors[std::size_t(copy)];
    tensor.name = "result" + std::to_string(i);
    tensor.role = Role::RESULT;
    tensor.type = graph_.tensor(wanted[i]).type;
  }
  TuningTable tuning;
  const CompileResult compiled =
      assemble({&graph_, 1}, *make_kernel_oracle(DeviceKind::CPU, tuning), memory);
  const auto executor = make_executor(DeviceKind::CPU, compiled, {.num_threads = threads});
  for (const auto& [id, tensor] : given_) {
    executor->write(executor->place(graph_.tensor(id).name), tensor.raw(),
                    std::int64_t(tensor.num_bytes()));
  }
  executor->run(0);
  std::vector<Tensor> results(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i] == kNoTensor) continue;
    results[i] = Tensor(graph_.tensor(wanted[i]).type->shape, DType::FP32);
    executor->read(executor->place("result" + std::to_string(i)), results[i].raw(),
                   std::int64_t(results[i].num_bytes()));
  }
  return results;
}

}  // namespace tr::test
