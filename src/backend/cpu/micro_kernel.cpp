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
template <bool kPairs, int R>
__attribute__((target("avx512f"))) void multiply(const MicroCall& call) {
  const std::int64_t n = call.columns;
  const auto mask0 = __mmask16(n >= kLanes ? 0xffff : (1u << n) - 1);
  const auto mask1 = __mmask16(n >= 2 * kLanes ? 0xffff
                               : n <= kLanes   ? 0
                                               : (1u << (n - kLanes)) - 1);
  __m512 sum[R][2];
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r) {
    const float* row = call.c + r * call.ldc;
    sum[r][0] = call.accumulate ? _mm512_maskz_loadu_ps(mask0, row) : _mm512_setzero_ps();
    sum[r][1] = call.accumulate ? _mm512_maskz_loadu_ps(mask1, row + kLanes) : _mm512_setzero_ps();
  }
  const float* a = call.a;
  const float* b = call.b;
  for (std::int64_t k = 0; k < call.k; ++k, a += R, b += kMicroColumns) {
    const __m512 b0 = _mm512_load_ps(b);
    const __m512 b1 = _mm512_load_ps(b + kLanes);
#pragma GCC unroll 14
    for (int r = 0; r < R; ++r) {
      const __m512 x = _mm512_set1_ps(a[r]);
      add_product<kPairs>(sum[r][0], x, b0);
      add_product<kPairs>(sum[r][1], x, b1);
    }
  }
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r) {
    float* row = call.c + r * call.ldc;
    _mm512_mask_storeu_ps(row, mask0, sum[r][0]);
    if (mask1 != 0) _mm512_mask_storeu_ps(row + kLanes, mask1, sum[r][1]);
  }
}

template <bool kPairs, int... R>
constexpr MicroKernels table(std::integer_sequence<int, R...>) {
  return {nullptr, multiply<kPairs, R + 1>...};
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
