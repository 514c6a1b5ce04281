// SPDX-License-Identifier: Apache-2.0
#pragma once

// What kernels of this folder share on the host's side: stream, launch, registration.

#include <cuda_runtime.h>

#include <algorithm>
#include <string>
#include <utility>

#include "backend/cuda/check.h"
#include "backend/kernel.h"

namespace tr::cuda {

inline cudaStream_t stream_of(const KernelArgs& args) {
  return static_cast<cudaStream_t>(args.stream());
}

struct LaunchShape {
  dim3 grid{1, 1, 1};
  dim3 block{1, 1, 1};
  std::size_t shared_bytes = 0;  // dynamic; above 48 KiB the kernel's attribute must allow it
  bool cooperative = false;      // all blocks run at once, so that they may wait for each other
};

/// Enqueues `kernel` on the launch's stream. @throws DeviceError  the launch is refused.
template <typename... Params, typename... Given>
void launch(const KernelArgs& args, const LaunchShape& shape, void (*kernel)(Params...),
            Given&&... given) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream_of(args);
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  if (shape.cooperative) {
    config.attrs = &cooperative;
    config.numAttrs = 1;
  }
  TR_CUDA(cudaLaunchKernelEx(&config, kernel, Params(std::forward<Given>(given))...));
}

// Where there is no GPU to ask, these know no limit, since then nothing runs.

/// Compute capability that the running code was compiled for, times ten. It may be below the GPU's:
/// the driver translates for newer GPUs what was compiled for an older one, and what the compiler
/// left out there (`#if __CUDA_ARCH__`) is missing on them too.
int code_capability();
/// Why kernels with mma of bf16 and asynchronous copies cannot run; empty if they can.
inline std::string refuse_old_code() {
  if (code_capability() >= 80) return "";
  return "the GPU, or the one that the code was compiled for, is older than compute capability 8.0";
}
/// Of one block, where its kernel's attribute asks for it.
std::int64_t most_shared_bytes();

template <typename Integer>
constexpr Integer ceil_div(Integer a, Integer b) {
  return (a + b - 1) / b;
}

/// A launch of `block` threads a block over `items`, at most `most` blocks; the kernel strides over
/// the rest. An empty range still gets one block, which finds nothing to do.
inline LaunchShape shape_for(std::int64_t items, int block = 256, std::int64_t most = 1 << 20) {
  LaunchShape shape;
  const std::int64_t blocks =
      std::clamp<std::int64_t>(ceil_div<std::int64_t>(items, block), 1, most);
  shape.grid.x = unsigned(blocks);
  shape.block.x = unsigned(block);
  return shape;
}

/// A kernel of op `op`, named "cuda.OP".
inline KernelDef simple_kernel(std::string op, void (*launch)(const KernelArgs&),
                               std::function<std::string(const KernelQuery&)> refuse = {}) {
  KernelDef def;
  def.name = "cuda." + op;
  def.op = std::move(op);
  def.device = DeviceKind::CUDA;
  def.launch = launch;
  def.refuse = std::move(refuse);
  return def;
}

}  // namespace tr::cuda
