// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/resident.h"
#include "backend/step_timing.h"
#include "backend/tuning_table.h"
#include "core/thread_pool.h"
#include "device/communicator.h"
#include "graph/compiler.h"
#include "graph/kernel_oracle.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

/// What a run allows beyond the rule that a kernel computes in the dtype of its operands.
struct KernelLicence {
  /// Kernels whose name ends in "_tf32" are candidates: they multiply fp32 operands cut to TF32's
  /// 10 bits of mantissa.
  bool tf32 = false;
  /// Kernels that may give other bytes for equal operands are candidates (KernelDef::repeatable).
  bool unrepeatable = false;
  /// The fused update, which leaves the gradients unwritten, is not offered.
  bool keep_gradients = false;
};

class EngineSearch;

/// The oracle of a device's registered kernels. A node's engine is what `tuning` says, else what
/// `search` has cached or finds by measuring, else (also where there is no search) the first kernel
/// that takes it; `tuning` records it.
std::unique_ptr<KernelOracle> make_kernel_oracle(DeviceKind device, TuningTable& tuning,
                                                 const KernelLicence& licence = {},
                                                 EngineSearch* search = nullptr);

struct ExecutorOptions {
  int device_index = 0;                  // which of the machine's GPUs
  int num_threads = 0;                   // compute threads; 0: the processor's cores
  Communicator* communicator = nullptr;  // null: a world of one
  /// On a device: the nodes of a step run one after another and each leaves a mark that outlives
  /// the device, so that an asynchronous error names its node.
  bool locate_faults = false;
};

/// Memory of its device that an executor has taken; contexts, code and graphs are not counted.
struct MemoryUse {
  std::int64_t arena_bytes = 0;
  std::int64_t data_bytes = 0;  // data sets that are held
  std::int64_t total_bytes() const { return arena_bytes + data_bytes; }
};

/// Replays the lowered graphs of one rank: owns the arena, prepared kernels, compute threads. run()
/// takes no locks and allocates nothing. On a device it only enqueues: what it launches ends in
/// order, and read(), write() and synchronize() wait for it.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Where the next launches find a field of the batch (a slot of the TransferStation).
  virtual void bind_input(const std::string& field, const void* data) = 0;
  /// Runs the whole step of a variant. @throws DeviceError  naming the node that failed; on a
  /// device that works asynchronously DeviceFaultError, with what is known of where.
  virtual void run(int variant) = 0;
  /// Number of the last launch that took inputs, and a wait until it has taken them over: only then
  /// may the memory that was bound change. The CPU's launches have ended when run() returns.
  virtual std::int64_t last_launch() const { return 0; }
  virtual void wait_inputs(std::int64_t /*launch*/) {}
  /// Tells that inputs will be bound within this memory, so that it can be pinned; it must be let
  /// go before it is freed.
  virtual void pin(std::span<const std::byte> /*memory*/) {}
  virtual void unpin(std::span<const std::byte> /*memory*/) {}
  /// Waits for all that was launched. @throws DeviceFaultError  if some of it failed.
  virtual void synchronize() = 0;
  /// Runs one sub-graph of it, for debugging and timing.
  virtual void run(int variant, GraphId id) = 0;

  /// Place of a persistent tensor ("2.weight", "counters", "results"): bytes from the arena's
  /// start.
  /// @throws InvalidArgument  unknown.
  virtual std::int64_t place(const std::string& name) const = 0;
  /// Copies `bytes` bytes between host memory and a place in the arena, after all launched steps.
  virtual void read(std::int64_t place, void* to, std::int64_t bytes) = 0;
  virtual void write(std::int64_t place, const void* from, std::int64_t bytes) = 0;
  /// Copy of a tensor of a variant: a persistent one as it stands; for a transient one, whose bytes
  /// are reused, the nodes that it needs run again on the bound inputs. @throws InvalidArgument
  /// unknown.
  virtual Tensor fetch(int variant, const std::string& name) = 0;
  virtual std::int64_t arena_bytes() const = 0;
  virtual MemoryUse memory() const { return {.arena_bytes = arena_bytes()}; }

  /// Keeps a split in the device's memory and makes `variants` ready to be fed from it; what
  /// `split` points to may go afterwards. Returns the split's number.
  /// @throws Unsupported  the device cannot hold it, and why; OutOfMemory.
  virtual int hold(const ResidentSplit& split, std::span<const int> variants);
  /// Launches a step of `variant` for each row: its batch is made of the split's samples on the
  /// device.
  virtual void run_held(int split, int variant, std::span<const FeedRow> rows);
  /// From now on the nodes of a step run one after another and each is timed; the step's bytes stay
  /// the same. A run then waits for its end.
  virtual void set_step_timing(bool on) = 0;
  /// The steps that were timed since the last call, oldest first.
  virtual std::vector<StepTiming> take_step_timings() = 0;
  /// Seconds spent in each node over all runs since the last call, by variant; measured only if
  /// asked for.
  virtual void set_profiling(bool on) = 0;
  virtual std::map<std::string, double> node_seconds(int variant) const = 0;
};

/// @throws OutOfMemory  the arena could not be had.
std::unique_ptr<Executor> make_cpu_executor(const CompileResult& compiled,
                                            const ExecutorOptions& options);

}  // namespace tr
