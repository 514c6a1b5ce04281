// SPDX-License-Identifier: Apache-2.0
#pragma once

// Storage types of floating tensors and their way to and from float, in kernels.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tr::cuda {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

/// Rounds to nearest, ties to even; FP16 overflows to infinity.
template <typename T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// All bits of each element of a word (one fp32, two of 16 bits) that is <= 0; none of one that is
/// not a number.
__device__ inline std::uint32_t not_positive(std::uint32_t word, float) {
  return __uint_as_float(word) <= 0.0f ? ~0u : 0u;
}
__device__ inline std::uint32_t not_positive(std::uint32_t word, __half) {
  return __hle2_mask(*reinterpret_cast<const __half2*>(&word), __half2{});
}
__device__ inline std::uint32_t not_positive(std::uint32_t word, __nv_bfloat16) {
  return __hle2_mask(*reinterpret_cast<const __nv_bfloat162*>(&word), __nv_bfloat162{});
}

/// `N` neighbours, loaded and stored by one instruction.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vector {
  T v[N];
};

/// True if all of them can be read as vectors of `bytes` bytes.
template <typename... Pointers>
bool aligned_to(std::size_t bytes, const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % bytes == 0) && ...);
}

}  // namespace tr::cuda
