// SPDX-License-Identifier: Apache-2.0
#include "op/op_launch.h"

#include <algorithm>
#include <cstring>

#include "core/format.h"
#include "task/device.h"
#include "task/graph_assembly.h"

namespace tr::test {

OpLaunch::OpLaunch(const OpCase& c, DType dtype, TaskDevice device) {
  const std::vector<Tensor> inputs = inputs_for(c, dtype);
  builder_.at(GraphId::FORWARD, c.op);
  std::vector<TensorId> in;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(place(inputs[i], fmt::format("in{}", i)));
  }
  while (!in.empty() && in.back() == kNoTensor) in.pop_back();
  const std::vector<TensorId> out = builder_.add_op(c.op, in, c.attrs);
  results_ = out;
  if (!c.differentiable.empty()) {
    const std::vector<TensorId> gradients = add_gradient(c, in, out);
    results_.insert(results_.end(), gradients.begin(), gradients.end());
  }
  types_ = derive_shapes(graph_, VariantKey{});
  for (const TensorId id : results_) {
    if (id == kNoTensor) continue;
    LogicalTensor& tensor = graph_.tensors[std::size_t(id)];
    if (is_persistent(tensor.role)) continue;
    tensor.role = Role::RESULT;
    tensor.type = types_[std::size_t(id)];
  }
  TuningTable tuning;
  compiled_ = assemble({&graph_, 1}, *make_kernel_oracle(device.kind, tuning));
  executor_ = make_executor(device.kind, compiled_, {.num_threads = device.num_threads});
}

TensorId OpLaunch::place(const Tensor& tensor, const std::string& name) {
  if (tensor.empty()) return kNoTensor;
  const TensorId id = builder_.persistent(name, Role::RESULT, tensor.type());
  given_.emplace_back(id, tensor);
  return id;
}

std::vector<TensorId> OpLaunch::add_gradient(const OpCase& c, const std::vector<TensorId>& in,
                                             const std::vector<TensorId>& out) {
  const std::vector<TensorType> types = derive_shapes(graph_, VariantKey{});
  const TensorType& y = types[std::size_t(out.front())];
  const Tensor dy = output_gradients({Tensor::zeros(y.shape, y.dtype)}).front();
  std::vector<TensorId> wanted;
  for (const int i : c.differentiable) {
    if (std::size_t(i) < in.size() && in[std::size_t(i)] != kNoTensor) {
      wanted.push_back(in[std::size_t(i)]);
    }
  }
  builder_.at(GraphId::BACKWARD, c.op);
  const std::vector<std::pair<TensorId, TensorId>> seeds = {{out.front(), place(dy, "dy")}};
  return append_backward(builder_, seeds, wanted);
}

std::vector<Tensor> OpLaunch::captured() { return launch(false); }
std::vector<Tensor> OpLaunch::eager() { return launch(true); }

std::vector<Tensor> OpLaunch::launch(bool profiled) {
  constexpr int kNan = 0xff;  // in every floating dtype
  std::vector<Tensor> values(results_.size());
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (results_[i] == kNoTensor) continue;
    const TensorType& type = types_[std::size_t(results_[i])];
    values[i] = Tensor(type.shape, type.dtype);
    std::memset(values[i].raw(), kNan, values[i].num_bytes());
    executor_->write(executor_->place(graph_.tensor(results_[i]).name), values[i].raw(),
                     std::int64_t(values[i].num_bytes()));
  }
  for (const auto& [id, tensor] : given_) {
    executor_->write(executor_->place(graph_.tensor(id).name), tensor.raw(),
                     std::int64_t(tensor.num_bytes()));
  }
  executor_->set_profiling(profiled);  // which launches nodes singly
  executor_->run(0);
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (results_[i] == kNoTensor) continue;
    executor_->read(executor_->place(graph_.tensor(results_[i]).name), values[i].raw(),
                    std::int64_t(values[i].num_bytes()));
  }
  return values;
}

}  // namespace tr::test
