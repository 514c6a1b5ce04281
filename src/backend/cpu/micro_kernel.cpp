// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/micro_kernel.h"

#include <immintrin.h>

#include <utility>

namespace tr::cpu {
namespace {

constexpr int kLanes = 16;

// The library is built for AVX2; only this function, called where the processor has it, uses
// AVX-512.
template <int R>
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
      sum[r][0] = _mm512_fmadd_ps(x, b0, sum[r][0]);
      sum[r][1] = _mm512_fmadd_ps(x, b1, sum[r][1]);
    }
  }
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r) {
    float* row = call.c + r * call.ldc;
    _mm512_mask_storeu_ps(row, mask0, sum[r][0]);
    if (mask1 != 0) _mm512_mask_storeu_ps(row + kLanes, mask1, sum[r][1]);
  }
}

template <int... R>
constexpr std::array<MicroKernel, kMicroRows + 1> table(std::integer_sequence<int, R...>) {
  return {nullptr, multiply<R + 1>...};
}

}  // namespace

const std::array<MicroKernel, kMicroRows + 1>& avx512_micro_kernels() {
  static constexpr auto kKernels = table(std::make_integer_sequence<int, kMicroRows>{});
  return kKernels;
}

}  // namespace tr::cpu
