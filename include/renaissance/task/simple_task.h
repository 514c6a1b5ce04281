// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/core/types.h"
#include "renaissance/graph/attrs.h"
#include "renaissance/tensor/dtensor.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

/// One op applied to tensors of a task.
struct OpCall {
  std::string op;
  std::vector<DTensor> inputs;
  std::vector<DTensor> outputs;  // inputs that the op also writes need not be repeated here
  Attrs attrs;
};

struct TaskDevice {
  DeviceKind kind = DeviceKind::CPU;
  int num_threads = 0;  // CPU compute threads; 0: the processor's cores
};

/// Memory, graphs and their execution, in three phases: PLANNING (alloc) -> finalize_memory() ->
/// MEMORY_LOCKED (add_graph) -> compile() -> COMPILED (transfer, fill, run, fetch). A call in
/// another phase throws InvalidArgument that names both. What a task may call is decided by its
/// subclass.
class TR_API TaskBase {
 public:
  explicit TaskBase(TaskDevice device = {});
  virtual ~TaskBase();
  TaskBase(const TaskBase&) = delete;
  TaskBase& operator=(const TaskBase&) = delete;

  Phase phase() const;
  /// Bytes of the arena; 0 before compile().
  std::int64_t arena_bytes() const;

 protected:
  /// PLANNING: reserves a persistent tensor. @throws InvalidArgument  the name is taken.
  DTensor alloc(const Shape& shape, DType dtype = DType::FP32, std::string name = "");
  /// PLANNING -> MEMORY_LOCKED.
  void finalize_memory();
  /// MEMORY_LOCKED: a named row of ops, run in order; each op's shape rule is checked here.
  /// @throws InvalidArgument  the name is taken, an op or attribute is unknown, a tensor is of
  /// another task, the shape rule is broken, or an output is an input that the op cannot write
  /// over. @throws Unsupported  no kernel takes the op.
  void add_graph(const std::string& name, const std::vector<OpCall>& ops);
  /// MEMORY_LOCKED -> COMPILED: lowers every graph, takes the arena (zero-filled).
  void compile();
  /// COMPILED: copies host bytes to the device. @throws InvalidArgument  shape or dtype differ.
  void transfer(const Tensor& from, const DTensor& to);
  void fill(const DTensor& tensor, double value);
  Tensor fetch(const DTensor& tensor) const;
  /// COMPILED: runs a graph. On a GPU it is under way when this returns; fetch() waits for it.
  /// @throws InvalidArgument  an unknown name.
  void run(const std::string& name);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A task for graphs written by hand: op tests, experiments. Lifts TaskBase's calls to public.
///
///   SimpleTask task;
///   const DTensor x = task.alloc({2, 3}), y = task.alloc({2, 3});
///   task.finalize_memory();
///   task.add_graph("forward", {{"relu", {x}, {y}}});
///   task.compile();
///   task.transfer(Tensor::normal({2, 3}, 0, 1, /*seed=*/1), x);
///   task.run("forward");
///   const Tensor result = task.fetch(y);
class TR_API SimpleTask : public TaskBase {
 public:
  using TaskBase::add_graph;
  using TaskBase::alloc;
  using TaskBase::compile;
  using TaskBase::fetch;
  using TaskBase::fill;
  using TaskBase::finalize_memory;
  using TaskBase::run;
  using TaskBase::TaskBase;
  using TaskBase::transfer;
};

/// Runs one op on given tensors through the same lowering and executor as a model: the outputs,
/// then the final bytes of each input that the op also writes (in the order of its definition; the
/// given tensors themselves stay as they are). An empty Tensor stands for a missing optional input.
/// @throws InvalidArgument  unknown op or attribute, broken shape rule. @throws Unsupported  no
/// kernel.
TR_API std::vector<Tensor> run_op(const std::string& op, const std::vector<Tensor>& inputs,
                                  Attrs attrs = {}, TaskDevice device = {});

/// Runs an op and its gradient rule: one gradient for each input, an empty Tensor where there is
/// none. `douts[i]` is the gradient of output i; an empty one means that none reaches it.
/// @throws Unsupported  the op is not differentiable. Otherwise as run_op.
TR_API std::vector<Tensor> grad_op(const std::string& op, const std::vector<Tensor>& inputs,
                                   Attrs attrs, const std::vector<Tensor>& douts,
                                   TaskDevice device = {});

}  // namespace tr
