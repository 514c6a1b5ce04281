// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "backend/tuning_table.h"
#include "core/thread_pool.h"
#include "device/communicator.h"
#include "graph/compiler.h"
#include "graph/kernel_oracle.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

/// The oracle of a device's registered kernels: candidates in order, measured choices from `tuning`.
std::unique_ptr<KernelOracle> make_kernel_oracle(DeviceKind device, TuningTable& tuning);

struct ExecutorOptions {
  int num_threads = 0;                 // compute threads; 0: the processor's cores
  Communicator* communicator = nullptr;  // null: a world of one
};

/// Replays the lowered graphs of one rank: owns the arena, prepared kernels, compute threads. run() takes
/// no locks and allocates nothing.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Where the next launches find a field of the batch (a slot of the TransferStation).
  virtual void bind_input(const std::string& field, const void* data) = 0;
  /// Runs the whole step of a variant. @throws DeviceError  naming the node that failed.
  virtual void run(int variant) = 0;
  /// Runs one sub-graph of it, for debugging and timing.
  virtual void run(int variant, GraphId id) = 0;

  /// Address of a persistent tensor ("2.weight", "counters", "results"). @throws InvalidArgument unknown.
  virtual std::byte* persistent(const std::string& name) = 0;
  /// Copy of a tensor of a variant: a persistent one as it stands; for a transient one, whose bytes are
  /// reused, the nodes that it needs run again on the bound inputs. @throws InvalidArgument  unknown.
  virtual Tensor fetch(int variant, const std::string& name) = 0;
  virtual std::int64_t arena_bytes() const = 0;
  /// Seconds spent in each node over all runs since the last call, by variant; measured only if asked for.
  virtual void set_profiling(bool on) = 0;
  virtual std::map<std::string, double> node_seconds(int variant) const = 0;
};

/// @throws OutOfMemory  the arena could not be had.
std::unique_ptr<Executor> make_cpu_executor(const CompileResult& compiled,
                                            const ExecutorOptions& options);

}  // namespace tr
