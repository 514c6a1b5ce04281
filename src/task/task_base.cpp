// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "core/check.h"
#include "core/format.h"
#include "graph/computation_graph.h"
#include "renaissance/task/simple_task.h"
#include "task/device.h"
#include "task/graph_assembly.h"

namespace tr {

namespace {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::PLANNING: return "PLANNING";
    case Phase::MEMORY_LOCKED: return "MEMORY_LOCKED";
    case Phase::COMPILED: return "COMPILED";
  }
  return "?";
}

/// Ids of a task's tensors begin here: those of another task are no ids of this one.
std::int32_t next_first_id() {
  constexpr std::uint32_t kTasks = 1 << 14, kTensors = 1 << 17;
  static std::atomic<std::uint32_t> tasks{0};
  return std::int32_t(tasks.fetch_add(1) % kTasks * kTensors);
}

bool has_pair(const std::vector<std::pair<int, int>>& pairs, std::size_t output,
              std::size_t input) {
  return std::find(pairs.begin(), pairs.end(), std::pair(int(output), int(input))) != pairs.end();
}

/// An op may write over what it reads only where its definition says so.
void check_outputs(const OpCall& call, const OpDef& def) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const DTensor& output = call.outputs[i];
    for (std::size_t j = 0; j < call.inputs.size(); ++j) {
      TR_CHECK(call.inputs[j].id != output.id || has_pair(def.in_place, i, j) ||
                   has_pair(def.next_buffers, i, j),
               "{}: \"{}\" is output {} and input {} too, expected another tensor: the op still "
               "reads what it would write over",
               call.op, output.name, i, j);
    }
    for (std::size_t j = 0; j < i; ++j) {
      TR_CHECK(call.outputs[j].id != output.id,
               "{}: \"{}\" is output {} and output {}, expected a tensor for each", call.op,
               output.name, j, i);
    }
  }
}

}  // namespace

struct TaskBase::Impl {
  TaskDevice device;
  Phase phase = Phase::PLANNING;
  const std::int32_t first_id = next_first_id();
  std::vector<DTensor> tensors;  // id = first_id + index
  std::vector<std::string> graph_names;
  std::vector<ComputationGraph> graphs;
  TuningTable tuning;
  CompileResult compiled;
  std::unique_ptr<Executor> executor;

  void require(Phase needed, const char* call) const {
    TR_CHECK(phase == needed, "{} is called in phase {}, expected {}", call, name_of(phase),
             name_of(needed));
  }

  const DTensor& own(const DTensor& tensor, const char* call) const {
    const std::int64_t index = index_of(tensor);
    const bool known = index >= 0 && index < std::int64_t(tensors.size()) &&
                       tensors[std::size_t(index)].name == tensor.name &&
                       tensors[std::size_t(index)].type == tensor.type;
    TR_CHECK(known, "{}: tensor \"{}\" {} is not one of this task's", call, tensor.name,
             tensor.type);
    return tensors[std::size_t(index)];
  }
  std::int64_t index_of(const DTensor& tensor) const { return std::int64_t(tensor.id) - first_id; }

  std::int64_t place(const DTensor& tensor, const char* call) const {
    return executor->place(own(tensor, call).name);
  }
};

TaskBase::TaskBase(TaskDevice device) : impl_(std::make_unique<Impl>()) { impl_->device = device; }
TaskBase::~TaskBase() = default;

Phase TaskBase::phase() const { return impl_->phase; }

std::int64_t TaskBase::arena_bytes() const {
  return impl_->executor ? impl_->executor->arena_bytes() : 0;
}

DTensor TaskBase::alloc(const Shape& shape, DType dtype, std::string name) {
  impl_->require(Phase::PLANNING, "alloc");
  if (name.empty()) name = "tensor" + std::to_string(impl_->tensors.size());
  for (const DTensor& other : impl_->tensors) {
    TR_CHECK(other.name != name, "alloc: the name \"{}\" is taken by a tensor {}", name,
             other.type);
  }
  DTensor tensor{
      impl_->first_id + std::int32_t(impl_->tensors.size()), std::move(name), {shape, dtype}, -1};
  impl_->tensors.push_back(tensor);
  return tensor;
}

void TaskBase::finalize_memory() {
  impl_->require(Phase::PLANNING, "finalize_memory");
  impl_->phase = Phase::MEMORY_LOCKED;
}

void TaskBase::add_graph(const std::string& name, const std::vector<OpCall>& ops) {
  impl_->require(Phase::MEMORY_LOCKED, "add_graph");
  for (const std::string& other : impl_->graph_names) {
    TR_CHECK(other != name, "add_graph: the name \"{}\" is taken", name);
  }
  TR_CHECK(!ops.empty(), "add_graph: graph \"{}\" has no op", name);
  ComputationGraph graph;
  GraphBuilder builder(graph);
  std::vector<TensorId> ids;
  for (const DTensor& tensor : impl_->tensors) {
    ids.push_back(builder.persistent(tensor.name, Role::RESULT, tensor.type));
  }
  for (const OpCall& call : ops) {
    const OpDef& def = OpRegistry::instance().get(call.op);
    TR_CHECK(!is_view_op(def), "{}: the op gives its input's bytes; use that tensor itself",
             call.op);
    builder.at(GraphId::FORWARD, name);
    std::vector<TensorId> inputs, outputs;
    std::vector<TensorType> types;
    for (const DTensor& tensor : call.inputs) {
      const bool missing = tensor.id < 0;
      if (!missing) impl_->own(tensor, "add_graph");
      inputs.push_back(missing ? kNoTensor : ids[std::size_t(impl_->index_of(tensor))]);
      types.push_back(missing ? TensorType{} : tensor.type);
    }
    for (const DTensor& tensor : call.outputs) {
      outputs.push_back(ids[std::size_t(impl_->index_of(impl_->own(tensor, "add_graph")))]);
    }
    check_outputs(call, def);
    builder.add_into(call.op, inputs, outputs, call.attrs);
    const std::vector<TensorType> inferred = def.infer(graph.nodes.back().attrs, types);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      TR_CHECK(i < inferred.size(), "{}: {} outputs are given, the op has {}", call.op,
               outputs.size(), inferred.size());
      TR_CHECK(inferred[i] == call.outputs[i].type,
               "{}: output \"{}\" is {}, expected {} (the op's shape rule)", call.op,
               call.outputs[i].name, call.outputs[i].type, inferred[i]);
    }
  }
  impl_->graph_names.push_back(name);
  impl_->graphs.push_back(std::move(graph));
}

void TaskBase::compile() {
  impl_->require(Phase::MEMORY_LOCKED, "compile");
  TR_CHECK(!impl_->graphs.empty(), "compile: the task has no graph");
  const auto oracle = make_kernel_oracle(impl_->device.kind, impl_->tuning);
  impl_->compiled = assemble(impl_->graphs, *oracle);
  impl_->executor = make_executor(impl_->device.kind, impl_->compiled,
                                  {.num_threads = impl_->device.num_threads});
  impl_->phase = Phase::COMPILED;
}

void TaskBase::transfer(const Tensor& from, const DTensor& to) {
  impl_->require(Phase::COMPILED, "transfer");
  TR_CHECK(from.type() == to.type, "transfer: the tensor is {}, \"{}\" is {}", from.type(), to.name,
           to.type);
  impl_->executor->write(impl_->place(to, "transfer"), from.raw(), std::int64_t(from.num_bytes()));
}

void TaskBase::fill(const DTensor& tensor, double value) {
  impl_->require(Phase::COMPILED, "fill");
  const Tensor values = Tensor::full(tensor.type.shape, value, tensor.type.dtype);
  impl_->executor->write(impl_->place(tensor, "fill"), values.raw(),
                         std::int64_t(values.num_bytes()));
}

Tensor TaskBase::fetch(const DTensor& tensor) const {
  impl_->require(Phase::COMPILED, "fetch");
  Tensor result(tensor.type.shape, tensor.type.dtype);
  impl_->executor->read(impl_->place(tensor, "fetch"), result.raw(),
                        std::int64_t(result.num_bytes()));
  return result;
}

void TaskBase::run(const std::string& name) {
  impl_->require(Phase::COMPILED, "run");
  for (std::size_t i = 0; i < impl_->graph_names.size(); ++i) {
    if (impl_->graph_names[i] == name) return impl_->executor->run(int(i));
  }
  throw_as<InvalidArgument>("run: there is no graph \"{}\", expected one of: {}", name,
                            fmt::join(impl_->graph_names, ", "));
}

}  // namespace tr
