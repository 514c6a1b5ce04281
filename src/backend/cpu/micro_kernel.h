// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace tr::cpu {

/// Rows and columns of C that a micro-kernel keeps in registers: 28 accumulators of 16 lanes, two
/// for the columns of B, two for the broadcast rows of A.
constexpr int kMicroRows = 14;
constexpr int kMicroColumns = 32;

/// C[0..R)[0..columns) (+)= A B over `k` terms, one fused multiply-add after the other in the order
/// of k: the same bytes for every R and every cut of k.
struct MicroCall {
  const float* a = nullptr;  // packed [k][R]
  const float* b = nullptr;  // packed [k][kMicroColumns]
  float* c = nullptr;        // rows of `ldc`
  std::int64_t ldc = 0;
  std::int64_t k = 0;
  std::int64_t columns = kMicroColumns;
  bool accumulate = false;  // adds to what c holds
};
using MicroKernel = void (*)(const MicroCall&);

/// AVX-512 kernels by number of rows; entry 0 is null.
const std::array<MicroKernel, kMicroRows + 1>& avx512_micro_kernels();

}  // namespace tr::cpu
