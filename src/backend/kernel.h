// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/thread_pool.h"
#include "device/communicator.h"
#include "graph/op_def.h"
#include "renaissance/core/types.h"

namespace tr {

/// Static facts of one node, known when kernels are chosen and prepared. Missing optional inputs
/// have an empty shape of rank 0 and null data; see has_in().
struct KernelQuery {
  const Attrs& attrs;
  std::span<const TensorType> in;
  std::span<const TensorType> out;
  /// One of KernelDef::configs(); empty: what the kernel takes without a measurement.
  std::string_view config = {};
};

/// What a launch sees. Pointers are read through a table at each launch, since inputs alternate
/// between slots; everything else was fixed at compile time. Kernels allocate nothing.
class KernelArgs {
 public:
  const Attrs& attrs() const { return *attrs_; }
  int num_in() const { return int(in_types_.size()); }
  int num_out() const { return int(out_types_.size()); }
  const TensorType& in_type(int i) const { return in_types_[std::size_t(i)]; }
  const TensorType& out_type(int i) const { return out_types_[std::size_t(i)]; }
  bool has_in(int i) const { return i < num_in() && in_slots_[std::size_t(i)] >= 0; }

  template <typename T>
  const T* in(int i) const {
    return static_cast<const T*>(pointer(in_slots_[std::size_t(i)]));
  }
  template <typename T>
  T* out(int i) const {
    return static_cast<T*>(pointer(out_slots_[std::size_t(i)]));
  }
  /// An input that the op also writes (OpDef::state_writes).
  template <typename T>
  T* state(int i) const {
    return static_cast<T*>(pointer(in_slots_[std::size_t(i)]));
  }
  /// Input i is persistent and no node of the graph writes it before this one: its bytes are final
  /// when the graph starts.
  bool settled_in(int i) const {
    return std::size_t(i) < settled_.size() && settled_[std::size_t(i)];
  }
  std::byte* workspace() const { return static_cast<std::byte*>(pointer(workspace_slot_)); }
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  ThreadPool& pool() const { return *pool_; }
  /// The device's stream that the launch goes to; null on the CPU. Only the device's own kernels
  /// know its type.
  void* stream() const { return stream_; }
  Communicator& communicator() const { return *communicator_; }

  const Attrs* attrs_ = nullptr;
  std::vector<TensorType> in_types_, out_types_;
  std::vector<std::int32_t> in_slots_, out_slots_;  // indices into pointers_; -1: missing
  std::vector<bool> settled_;                       // by input
  std::int32_t workspace_slot_ = -1;
  std::int64_t workspace_bytes_ = 0;
  void* const* pointers_ = nullptr;
  ThreadPool* pool_ = nullptr;
  void* stream_ = nullptr;
  Communicator* communicator_ = nullptr;

 private:
  void* pointer(std::int32_t slot) const { return slot < 0 ? nullptr : pointers_[slot]; }
};

/// A kernel made ready for one node's shapes: library primitives, partitions. Stateless ones need
/// none.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  virtual void run(const KernelArgs& args) const = 0;
};

struct KernelDef {
  std::string op;
  DeviceKind device = DeviceKind::CPU;
  std::string name;  // "cpu.fc.onednn"
  /// It may begin before its predecessors in the step have ended, and waits for them itself (CUDA's
  /// programmatic dependent launch).
  bool early_start = false;
  /// Equal operands give equal bytes. If not: only with `deterministic` off, or for an op alone.
  bool repeatable = true;
  /// Empty string: it can run this node; else the reason why not. Empty function: always can.
  std::function<std::string(const KernelQuery&)> refuse;
  std::function<std::int64_t(const KernelQuery&)> workspace_bytes;  // empty: none
  /// Ways to run this node that only a measurement tells apart (algorithms of a library, tiles),
  /// the most promising first; asks the current device. Empty function: one way, the empty config.
  std::function<std::vector<std::string>(const KernelQuery&)> configs;
  /// Empty string: the current device takes query.config, which a table may have brought from
  /// elsewhere; else the reason why not. Comes with `configs`.
  std::function<std::string(const KernelQuery&)> refuse_config;
  /// One of the two:
  void (*launch)(const KernelArgs&) = nullptr;
  std::function<std::unique_ptr<PreparedKernel>(const KernelQuery&, int num_threads)> prepare;
};

/// A kernel and the way it runs, in plans and tuning tables "NAME" or "NAME CONFIG".
struct Engine {
  const KernelDef* kernel = nullptr;
  std::string config;

  std::string text() const { return config.empty() ? kernel->name : kernel->name + " " + config; }
};
/// The two parts of such a text; the second may be empty.
struct EngineText {
  std::string_view kernel, config;
  explicit EngineText(std::string_view text);
};

/// Registers at start-up; candidates of one op are tried in the order of `priority`, highest first,
/// unless the TuningTable has a measured choice.
struct KernelRegistration {
  KernelRegistration(std::string op, DeviceKind device, void (*launch)(const KernelArgs&));
  explicit KernelRegistration(KernelDef def, int priority = 0);
};

/// All kernels of a device for an op, best first; empty if there is none.
std::vector<const KernelDef*> kernels_of(const std::string& op, DeviceKind device);
/// Every registered (op, device) pair, for the completeness test.
std::vector<std::pair<std::string, DeviceKind>> all_kernel_keys();

}  // namespace tr
