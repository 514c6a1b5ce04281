// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tr::cpu {

/// Rows and columns of C that a micro-kernel keeps in registers: 28 accumulators of 16 lanes, two
/// for the columns of B, two for the broadcast rows of A.
constexpr int kMicroRows = 14;
constexpr int kMicroColumns = 32;

/// C[0..R)[0..columns) = sum + A B over `k` words, one after the other: the same bytes for every R
/// and every cut of k. A word is a float, multiplied and added with one rounding, or a pair of bf16
/// of neighbouring terms, whose products are added in fp32.
struct MicroCall {
  const float* a = nullptr;    // packed [k][R]
  const float* b = nullptr;    // packed [k][kMicroColumns]
  const float* sum = nullptr;  // [R][kMicroColumns] of the terms before; null: zero
  float* c = nullptr;          // rows of `ldc`
  std::int64_t ldc = 0;
  std::int64_t k = 0;
  std::int64_t columns = kMicroColumns;
};
using MicroKernel = void (*)(const MicroCall&);
/// By number of rows (entry 0 is null), for columns in one vector and in two.
using MicroKernels = std::array<std::array<MicroKernel, kMicroRows + 1>, 2>;

/// The kernel of a table for `rows` x `columns`.
inline MicroKernel kernel_for(const MicroKernels& kernels, std::int64_t rows,
                              std::int64_t columns) {
  return kernels[columns > kMicroColumns / 2 ? 1 : 0][std::size_t(rows)];
}

/// Words are floats; needs AVX-512 F.
const MicroKernels& fp32_micro_kernels();
/// Words are pairs of bf16; needs AVX-512 BF16.
const MicroKernels& bf16_micro_kernels();

}  // namespace tr::cpu
