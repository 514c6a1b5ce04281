// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/executor.h"
#include "graph/compiler.h"
#include "renaissance/algo/initializer.h"
#include "renaissance/task/deep_learning_task.h"
#include "renaissance/tensor/safetensors.h"

namespace tr {

/// The persistent tensors of one rank, found by what they are for: parameters, averages, moments,
/// buffers, counters.
class ModelState {
 public:
  ModelState(const CompileResult& compiled, Executor& executor);

  /// First bytes of a run: parameters by `initializer`, buffers by their fill value or its file,
  /// the segment table, the loss scale.
  /// @throws InvalidArgument, DataError  a rule of the initializer does not fit the model.
  void initialise(const Initializer& initializer, std::uint64_t seed, float loss_scale);

  /// Parameters and buffers under their names, in files' layout.
  std::vector<NamedTensor> weights(WeightKind kind) const;
  Tensor weight(const std::string& name, WeightKind kind) const;
  /// Takes parameters and buffers from a file. Strict: every name and shape must match, none may be
  /// left over; otherwise what matches is taken and the rest is logged. Averages start from what is
  /// loaded.
  /// @throws InvalidArgument  listing what is missing, unknown, or of another shape.
  /// A checkpoint's file serves too: its averaged weights, else its weights.
  void load_weights(const SafetensorsFile& file, bool strict, const std::string& source);
  /// SHA-256 over name and bytes, in files' layout, of each trained parameter, sorted by name.
  std::string weights_sha256() const;

  /// Everything that a checkpoint needs, "role/name" -> bytes in memory's layout.
  std::vector<NamedTensor> snapshot() const;
  /// @throws InvalidArgument  a tensor is missing, unknown or of another type.
  void restore(const SafetensorsFile& file);

  /// Weights, averages and buffers, named as in snapshot().
  std::vector<NamedTensor> model_snapshot() const;
  /// Sets what model_snapshot() gave. @throws InvalidArgument  it is of another model.
  void restore_model(const std::vector<NamedTensor>& tensors);

  /// Running statistics of role BUFFER, as they are between steps, or BUFFER_NEXT, as the
  /// micro-batches so far have made them; in the order of the plan, empty if the model has none.
  std::vector<Tensor> buffers(Role role) const;
  void set_buffers(Role role, const std::vector<Tensor>& values);

  /// From now on no update moves the parameters whose names start with one of the prefixes, and
  /// all others move again, but those that are frozen for good.
  void freeze(const std::vector<std::string>& prefixes);

  bool has_ema() const;
  /// Copy of a persistent tensor, by its name in the graph. @throws InvalidArgument  unknown.
  Tensor copy_of(const std::string& name) const;
  /// First element of a persistent tensor. @throws InvalidArgument  unknown.
  template <typename T>
  T first_of(const std::string& name) const {
    T value;
    executor_.read(executor_.place(name), &value, sizeof value);
    return value;
  }
  bool has_persistent(const std::string& name) const { return tensors_.contains(name); }
  const std::map<std::string, const LoweredTensor*>& persistent_tensors() const { return tensors_; }

 private:
  struct Slot {
    std::string name;  // "weight/0.weight"
    TensorType type;
    std::int64_t place;
  };
  std::int64_t place_of(int param, Role role) const;
  /// Places of role BUFFER or BUFFER_NEXT.
  std::vector<std::pair<std::int64_t, TensorType>> buffer_places(Role role) const;
  Tensor copy_at(std::int64_t place, const TensorType& type) const;
  Tensor weight_of(int param, WeightKind kind) const;
  SafetensorsFile weights_of_checkpoint(SafetensorsFile file, const std::string& source,
                                        std::map<std::string, std::string>& misfits) const;
  std::vector<Slot> slots() const;
  void set_param(int param, const Tensor& memory, bool average_too);
  void write_casts();
  void write_segments(const std::vector<Segment>& segments);
  void write_cast(int param, const Tensor& memory);

  const CompileResult& compiled_;
  Executor& executor_;
  std::map<std::string, const LoweredTensor*> tensors_;  // persistent ones, by name
};

}  // namespace tr
