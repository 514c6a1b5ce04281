// SPDX-License-Identifier: Apache-2.0
#pragma once

// Programmatic dependent launch: a kernel whose KernelDef says `early_start` may begin while its
// predecessors of the same step still run. It has to wait_for_predecessors() in every block before
// it reads what they write or writes what they read; what no node of the step writes before it
// (KernelArgs::settled_in) it may read earlier. In code for GPUs older than compute capability 9.0
// both do nothing, and GraphCapture lets such kernels begin when their predecessors have ended.

namespace tr::cuda {

/// Successors may begin as soon as every block has come here; early is best.
__device__ inline void let_successors_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Returns when all predecessors have ended and what they wrote can be seen.
__device__ inline void wait_for_predecessors() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace tr::cuda
