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
  std::int64_t rows = 0;  // R
};
using MicroKernel = void (*)(const MicroCall&);

/// What a packed product runs on.
struct MicroKernels {
  std::int64_t rows = kMicroRows;  // of a block, at most
  /// Terms of a sum (words) that one step takes: packed operands are padded to it with zeros.
  std::int64_t step = 1;
  /// Blocks are packed as tiles, [k / step][rows][step], and padded to `rows`; else as [k][R].
  bool tiles = false;
  /// Set and leave the thread's mode around calls; null: there is none.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
  /// By number of rows (entry 0 is null), for columns in one vector and in two.
  std::array<std::array<MicroKernel, kMicroRows + 1>, 2> vectors{};
  MicroKernel tile = nullptr;  // any number of rows and columns

  MicroKernel of(std::int64_t num_rows, std::int64_t num_columns) const {
    if (tiles) return tile;
    return vectors[num_columns > kMicroColumns / 2 ? 1 : 0][std::size_t(num_rows)];
  }
};

/// Words are floats; needs AVX-512 F.
const MicroKernels& fp32_micro_kernels();
/// Words are pairs of bf16; needs AVX-512 BF16.
const MicroKernels& bf16_micro_kernels();

}  // namespace tr::cpu
