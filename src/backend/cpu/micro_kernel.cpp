// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/micro_kernel.h"

#include <immintrin.h>

#include <utility>

namespace tr::cpu {
namespace {

constexpr int kLanes = 16;

/// sum += x * b: floats, or pairs of bf16. The instruction is written out, since g++ binds
/// intrinsics to a target of the whole function.
template <bool kPairs>
[[gnu::always_inline, gnu::target("avx512f")]] inline void add_product(__m512& sum, __m512 x,
                                                                       __m512 b) {
  if constexpr (kPairs) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(b));
  } else {
    sum = _mm512_fmadd_ps(x, b, sum);
  }
}

// The library is built for AVX2; only these functions, called where the processor has it, use
// AVX-512.
template <bool kPairs, int R, int V>
__attribute__((target("avx512f"))) void multiply(const MicroCall& call) {
  __m512 sum[R][V];
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      sum[r][v] = call.sum != nullptr ? _mm512_load_ps(call.sum + r * kMicroColumns + v * kLanes)
                                      : _mm512_setzero_ps();
    }
  }
  const float* a = call.a;
  const float* b = call.b;
  for (std::int64_t k = 0; k < call.k; ++k, a += R, b += kMicroColumns) {
    __m512 columns[V];
    for (int v = 0; v < V; ++v) columns[v] = _mm512_load_ps(b + v * kLanes);
#pragma GCC unroll 14
    for (int r = 0; r < R; ++r) {
      const __m512 x = _mm512_set1_ps(a[r]);
      for (int v = 0; v < V; ++v) add_product<kPairs>(sum[r][v], x, columns[v]);
    }
  }
  if (call.columns == V * kLanes) {
#pragma GCC unroll 14
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) _mm512_storeu_ps(call.c + r * call.ldc + v * kLanes, sum[r][v]);
    }
    return;
  }
  const auto last = __mmask16((1u << (call.columns - (V - 1) * kLanes)) - 1);
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r) {
    float* row = call.c + r * call.ldc;
    for (int v = 0; v < V; ++v) {
      _mm512_mask_storeu_ps(row + v * kLanes, v == V - 1 ? last : __mmask16(0xffff), sum[r][v]);
    }
  }
}

template <bool kPairs, int... R>
constexpr MicroKernels table(std::integer_sequence<int, R...>) {
  MicroKernels kernels;
  kernels.vectors = {
      {{nullptr, multiply<kPairs, R + 1, 1>...}, {nullptr, multiply<kPairs, R + 1, 2>...}}};
  return kernels;
}

using Rows = std::make_integer_sequence<int, kMicroRows>;

}  // namespace

const MicroKernels& fp32_micro_kernels() {
  static constexpr MicroKernels kKernels = table<false>(Rows{});
  return kKernels;
}

const MicroKernels& bf16_micro_kernels() {
  static constexpr MicroKernels kKernels = table<true>(Rows{});
  return kKernels;
}

}  // namespace tr::cpu
