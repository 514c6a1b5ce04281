// SPDX-License-Identifier: Apache-2.0
#pragma once

// The tensor copy engine (TMA) of compute capability 9.0: one thread asks for a box of a matrix, a
// barrier in shared memory tells when its bytes have come. On older GPUs these do nothing, and the
// kernels that use them refuse.

#include <cuda.h>

#include <cstdint>

#include "backend/cuda/mma_instructions.cuh"
#include "backend/cuda/mma_tile.cuh"

namespace tr::cuda::tensor_copy {

using Barrier = std::uint64_t;

__device__ inline void init(Barrier& barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mma::shared_address(&barrier)));
#endif
}

/// Makes initialised barriers known to the copy engine.
__device__ inline void publish_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/// What this thread wrote to shared memory comes before what the engine or a warp group's product
/// does there; after a barrier that all threads pass.
__device__ inline void hand_over() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// The barrier's next phase ends when `bytes` have come.
__device__ inline void expect(Barrier& barrier, std::uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mma::shared_address(&barrier)),
      "r"(bytes)
      : "memory");
#endif
}

/// Waits for the end of the phase of that parity.
__device__ inline void wait(Barrier& barrier, std::uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "again:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
      "@!done bra again;\n\t"
      "}" ::"r"(mma::shared_address(&barrier)),
      "r"(parity)
      : "memory");
#endif
}

/// The box whose first element is (row, column); what lies outside the matrix is zero.
__device__ inline void load(void* to, const CUtensorMap& map, int row, int column,
                            Barrier& barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(mma::shared_address(to)),
      "l"(&map), "r"(column), "r"(row), "r"(mma::shared_address(&barrier))
      : "memory");
#endif
}

/// The map's description comes into the constant cache.
__device__ inline void prefetch(const CUtensorMap& map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

/// One operand's tile in shared memory as the engine lays it down: rows of at most 128 bytes, whose
/// 16-byte chunks are exchanged by the row's number, so that eight rows lie in different banks. A
/// tile begins at a multiple of 1024 bytes.
template <typename T, Along kAlong_, int kOuter, int kDepth>
struct SwizzledTile {
  static constexpr Along kAlong = kAlong_;
  static constexpr int kLines = kAlong == Along::K ? kOuter : kDepth;
  static constexpr int kLength = kAlong == Along::K ? kDepth : kOuter;
  static constexpr int kElements = kLines * kLength;
  static constexpr int kElementBytes = int(sizeof(T));
  static constexpr int kLineBytes = kLength * kElementBytes;
  static_assert(kLineBytes == 32 || kLineBytes == 64 || kLineBytes == 128);
  static_assert(kElements * kElementBytes % 1024 == 0);

  __device__ static const T* at(const T* tile, int outer, int k) {
    const int line = kAlong == Along::K ? outer : k, column = kAlong == Along::K ? k : outer;
    const int bytes = line * kLineBytes + column * kElementBytes;
    constexpr int kChunks = kLineBytes / 16 - 1;
    return tile + (bytes ^ (((bytes >> 7) & kChunks) << 4)) / kElementBytes;
  }
};

}  // namespace tr::cuda::tensor_copy
