// SPDX-License-Identifier: Apache-2.0
// run_op and grad_op: a graph of one op (and its backward ops), lowered and run once.
#include <cstring>

#include "core/check.h"
#include "core/format.h"
#include "graph/computation_graph.h"
#include "renaissance/task/simple_task.h"
#include "task/device.h"
#include "task/graph_assembly.h"

namespace tr {

namespace {

/// One graph under construction with the bytes that its persistent tensors start from.
class OneGraph {
 public:
  explicit OneGraph(TaskDevice device) : device_(device) {}

  GraphBuilder& builder() { return builder_; }
  ComputationGraph& graph() { return graph_; }

  /// A persistent tensor that starts with these bytes; kNoTensor for an empty one.
  TensorId place(const Tensor& tensor, const std::string& name) {
    if (tensor.empty()) return kNoTensor;
    const TensorId id = builder_.persistent(name, Role::RESULT, tensor.type());
    given_.emplace_back(id, tensor);
    return id;
  }

  /// Follows views back to the tensor whose bytes `id` has.
  TensorId owner_of(TensorId id) const {
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      const OpDef& def = OpRegistry::instance().get(node.op);
      if (!is_view_op(def)) continue;
      for (const auto& [out, in] : def.views) {
        if (node.outputs[std::size_t(out)] == id) id = node.inputs[std::size_t(in)];
      }
    }
    return id;
  }

  /// Makes the results persistent, so that they outlive the run, and runs the graph. Returns their
  /// bytes.
  std::vector<Tensor> run(const std::vector<TensorId>& results) {
    const std::vector<TensorType> types = derive_shapes(graph_, VariantKey{});
    bool any_node = false;
    for (const TensorId id : results) {
      if (id == kNoTensor) continue;
      LogicalTensor& owner = graph_.tensors[std::size_t(owner_of(id))];
      any_node = any_node || !is_persistent(owner.role);
      if (is_persistent(owner.role)) continue;
      owner.role = Role::RESULT;
      owner.type = types[std::size_t(owner_of(id))];
    }
    if (any_node || writes_state()) execute();
    std::vector<Tensor> values;
    for (const TensorId id : results) {
      values.push_back(id == kNoTensor ? Tensor() : read(id, types[std::size_t(id)]));
    }
    return values;
  }

 private:
  bool writes_state() const {
    for (const Node& node : graph_.nodes) {
      if (!OpRegistry::instance().get(node.op).state_writes.empty()) return true;
      for (const TensorId id : node.outputs) {
        if (is_persistent(graph_.tensor(id).role)) return true;
      }
    }
    return false;
  }

  void execute() {
    TuningTable tuning;
    // An op alone is looked at, not repeated: every kernel may show what it can.
    const auto oracle = make_kernel_oracle(device_.kind, tuning, {.unrepeatable = true});
    compiled_ = assemble({&graph_, 1}, *oracle);
    executor_ = make_executor(device_.kind, compiled_, {.num_threads = device_.num_threads});
    for (const auto& [id, tensor] : given_) {
      executor_->write(executor_->place(graph_.tensor(id).name), tensor.raw(),
                       std::int64_t(tensor.num_bytes()));
    }
    executor_->run(0);
  }

  Tensor read(TensorId id, const TensorType& type) {
    Tensor value(type.shape, type.dtype);
    const TensorId owner = owner_of(id);
    if (executor_) {
      executor_->read(executor_->place(graph_.tensor(owner).name), value.raw(),
                      std::int64_t(value.num_bytes()));
      return value;
    }
    for (const auto& [given, tensor] : given_) {
      if (given == owner) std::memcpy(value.raw(), tensor.raw(), value.num_bytes());
    }
    return value;
  }

  TaskDevice device_;
  ComputationGraph graph_;
  GraphBuilder builder_{graph_};
  std::vector<std::pair<TensorId, Tensor>> given_;
  CompileResult compiled_;
  std::unique_ptr<Executor> executor_;
};

std::vector<TensorId> place_inputs(OneGraph& one, const OpDef& def,
                                   const std::vector<Tensor>& inputs) {
  std::vector<TensorId> ids;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = i < def.inputs.size() ? def.inputs[i] : "input";
    ids.push_back(one.place(inputs[i], fmt::format("in{}.{}", i, name)));
  }
  while (!ids.empty() && ids.back() == kNoTensor) ids.pop_back();
  return ids;
}

}  // namespace

std::vector<Tensor> run_op(const std::string& op, const std::vector<Tensor>& inputs, Attrs attrs,
                           TaskDevice device) {
  const OpDef& def = OpRegistry::instance().get(op);
  OneGraph one(device);
  one.builder().at(GraphId::FORWARD, op);
  const std::vector<TensorId> in = place_inputs(one, def, inputs);
  std::vector<TensorId> results = one.builder().add_op(op, in, std::move(attrs));
  for (const int state : def.state_writes) {
    const bool given = std::size_t(state) < in.size();
    results.push_back(given ? in[std::size_t(state)] : kNoTensor);
  }
  return one.run(results);
}

std::vector<Tensor> grad_op(const std::string& op, const std::vector<Tensor>& inputs, Attrs attrs,
                            const std::vector<Tensor>& douts, TaskDevice device) {
  const OpDef& def = OpRegistry::instance().get(op);
  if (!def.gradient) throw_as<Unsupported>("{}: the op has no gradient rule", op);
  OneGraph one(device);
  GraphBuilder& builder = one.builder();
  builder.at(GraphId::FORWARD, op);
  const std::vector<TensorId> in = place_inputs(one, def, inputs);
  const std::vector<TensorId> out = builder.add_op(op, in, std::move(attrs));
  TR_CHECK(douts.size() <= out.size(), "{}: {} output gradients are given, the op has {} outputs",
           op, douts.size(), out.size());
  std::vector<std::pair<TensorId, TensorId>> seeds;
  for (std::size_t i = 0; i < douts.size(); ++i) {
    if (!douts[i].empty())
      seeds.emplace_back(out[i], one.place(douts[i], fmt::format("d.out{}", i)));
  }
  std::vector<TensorId> wanted;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] != kNoTensor && is_floating(inputs[i].dtype())) wanted.push_back(in[i]);
  }
  builder.at(GraphId::BACKWARD, op);
  const std::vector<TensorId> gradients = append_backward(builder, seeds, wanted);
  std::vector<TensorId> results(inputs.size(), kNoTensor);
  for (std::size_t i = 0; i < in.size(); ++i) {
    for (std::size_t w = 0; w < wanted.size(); ++w) {
      if (in[i] != kNoTensor && in[i] == wanted[w]) results[i] = gradients[w];
    }
  }
  return one.run(results);
}

}  // namespace tr
