// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of a whole warp group (wgmma) of compute capability 9.0: 64 x n sums in the registers of
// four warps, both operands in shared memory as the tensor copy engine lays them down
// (tensor_copy.cuh). The code exists only in what is compiled for sm_90a.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/tensor_copy.cuh"

namespace tr::cuda::wgmma {

constexpr int kThreads = 128;  // of a group

/// Before a group's first product, and after its registers were touched.
__device__ inline void begin() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ inline void commit() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/// Waits until at most kPending committed sets of products run.
template <int kPending>
__device__ inline void wait() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}

/// Describes 16 of k of a swizzled tile (64 or kOuter of the other index) from element k on. In
/// bytes: lines of kLineBytes, groups of eight lines one behind the other.
template <typename Tile>
__device__ inline std::uint64_t describe(const void* tile, int k) {
  constexpr std::uint64_t kSwizzle = Tile::kLineBytes == 128 ? 1 : Tile::kLineBytes == 64 ? 2 : 3;
  constexpr std::uint64_t kGroup = 8 * Tile::kLineBytes;
  const int offset = k * (Tile::kAlong == Along::K ? Tile::kElementBytes : Tile::kLineBytes);
  const std::uint64_t at = (mma::shared_address(tile) + unsigned(offset)) >> 4 & 0x3fff;
  return at | std::uint64_t{1} << 16 | (kGroup >> 4) << 32 | kSwizzle << 62;
}

/// c += A B over 16 of k; kTrans: the operand's lines run along its outer index.
template <int kTransA, int kTransB>
__device__ inline void multiply(float (&c)[8], std::uint64_t a, std::uint64_t b, __half) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, "
      "1, "
      "%10, %11;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7])
      : "l"(a), "l"(b), "n"(kTransA), "n"(kTransB));
#endif
}

template <int kTransA, int kTransB>
__device__ inline void multiply(float (&c)[8], std::uint64_t a, std::uint64_t b, __nv_bfloat16) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, "
      "1, 1, "
      "%10, %11;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7])
      : "l"(a), "l"(b), "n"(kTransA), "n"(kTransB));
#endif
}

template <int kTransA, int kTransB>
__device__ inline void multiply(float (&c)[16], std::uint64_t a, std::uint64_t b, __half) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, "
      "%18, %19;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15])
      : "l"(a), "l"(b), "n"(kTransA), "n"(kTransB));
#endif
}

template <int kTransA, int kTransB>
__device__ inline void multiply(float (&c)[16], std::uint64_t a, std::uint64_t b, __nv_bfloat16) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, "
      "%18, %19;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15])
      : "l"(a), "l"(b), "n"(kTransA), "n"(kTransB));
#endif
}

template <int kTransA, int kTransB>
__device__ inline void multiply(float (&c)[32], std::uint64_t a, std::uint64_t b, __half) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%"
      "25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, "
      "%34, %35;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
        "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
        "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
      : "l"(a), "l"(b), "n"(kTransA), "n"(kTransB));
#endif
}

template <int kTransA, int kTransB>
__device__ inline void multiply(float (&c)[32], std::uint64_t a, std::uint64_t b, __nv_bfloat16) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%"
      "25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, "
      "%34, %35;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
        "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
        "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
      : "l"(a), "l"(b), "n"(kTransA), "n"(kTransB));
#endif
}

/// c += A B over the whole depth of a stage's tiles.
template <typename A, typename B, int kDepth, int kRegisters, typename T>
__device__ inline void multiply_stage(float (&c)[kRegisters], const void* a, const void* b, T tag) {
  constexpr int kTransA = A::kAlong == Along::K ? 0 : 1, kTransB = B::kAlong == Along::K ? 0 : 1;
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    multiply<kTransA, kTransB>(c, describe<A>(a, k), describe<B>(b, k), tag);
  }
}

/// Whether this process's GPU runs code of this kind: `kernel` has an image for it.
inline bool has_image(const void* kernel) {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
  cudaGetLastError();
  // Without a driver or a GPU there is nobody to ask, and nothing runs.
  return status == cudaSuccess || status == cudaErrorNoDevice ||
         status == cudaErrorInsufficientDriver;
}

}  // namespace tr::cuda::wgmma
