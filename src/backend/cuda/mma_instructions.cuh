// SPDX-License-Identifier: Apache-2.0
#pragma once

// The instructions of mma_tile.cuh: asynchronous copies, matrix loads, the tensor cores' product.
// Compute capability 8.0; on older ones they do nothing, and the kernels that use them refuse.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tr::cuda::mma {

constexpr int kChunk = 8;    // elements of 16 bytes
constexpr int kPadding = 8;  // a row more of 16 bytes: eight rows lie in different banks

__device__ inline std::uint32_t shared_address(const void* p) {
  return std::uint32_t(__cvta_generic_to_shared(p));
}

/// 16 bytes from global to shared memory; zeros if not `valid`.
__device__ inline void copy_async(void* to, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 16 : 0));
#endif
}
/// The first `bytes` of 16 and zeros behind them; `bytes` is 0 to 16.
__device__ inline void copy_async_part(void* to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes));
#endif
}
/// 4 bytes; zeros if not `valid`.
__device__ inline void copy_async_word(void* to, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 4 : 0));
#endif
}
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;");
#endif
}
template <int kPending>
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending));
#endif
}

template <bool kTransposed>
__device__ inline void load_matrices(std::uint32_t (&r)[4], const void* address) {
  const std::uint32_t at = shared_address(address);
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
  }
}

__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1, __half) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1, __nv_bfloat16) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// The nearest TF32 number, 10 bits of mantissa.
__device__ inline std::uint32_t to_tf32(float x) {
  std::uint32_t bits = 0;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
#endif
  return bits;
}
/// c [16, 8] += a [16, 8] b [8, 8] of TF32. With g = lane / 4 and t = lane % 4 a thread has a(g,
/// t), a(g + 8, t), a(g, t + 4), a(g + 8, t + 4); b(t, g), b(t + 4, g); c(g, 2t), c(g, 2t + 1) and
/// both of g + 8.
__device__ inline void multiply_tf32(float (&c)[4], const std::uint32_t (&a)[4],
                                     const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

}  // namespace tr::cuda::mma
