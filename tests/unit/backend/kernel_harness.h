// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "renaissance/core/types.h"
#include "renaissance/graph/attrs.h"
#include "renaissance/tensor/tensor.h"

namespace tr::test {

/// One launch of one kernel, without compiler or executor. An empty Tensor is a missing input.
struct KernelCall {
  std::string op;
  Attrs attrs;
  std::vector<Tensor> inputs;
  std::string kernel;  // "cpu.fc.onednn", with a config behind it; empty: the best that takes it
};

struct KernelResult {
  std::vector<Tensor> outputs;
  std::vector<Tensor> inputs;  // as they are afterwards: state that the op writes
};

/// Runs it on `num_threads`. Outputs and workspace hold NaN before; every buffer lies between guard
/// bytes that must survive, and inputs that are no state must not change (else the test fails).
KernelResult run_kernel(const KernelCall& call, int num_threads = 2);

/// Memory of a device, as the harness uses it: every buffer lies between guards.
class KernelMemory {
 public:
  virtual ~KernelMemory() = default;
  /// `bytes` bytes that hold NaN in every floating dtype.
  virtual std::byte* add(std::size_t bytes) = 0;
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;
  /// True if nothing was written outside of any buffer.
  virtual bool intact() = 0;
};

/// Where a kernel is launched.
struct KernelSite {
  DeviceKind device = DeviceKind::CPU;
  KernelMemory& memory;
  ThreadPool* pool = nullptr;
  void* stream = nullptr;
  /// Calls its argument, which launches the kernel, and waits until that has run.
  std::function<void(const std::function<void()>&)> run;
};
KernelResult run_kernel_at(const KernelCall& call, const KernelSite& site);

/// The reason why kernel `call.kernel` refuses the call; empty if it takes it.
std::string refusal_of(const KernelCall& call, DeviceKind device = DeviceKind::CPU);

/// Every engine that takes the call, in rank: what a search measures.
std::vector<std::string> engines_of(const KernelCall& call, DeviceKind device);

/// True if 1, 2 and 3 threads give the same bytes.
bool same_bytes_for_threads(const KernelCall& call);

}  // namespace tr::test
