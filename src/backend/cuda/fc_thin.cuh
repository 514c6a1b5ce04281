// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the thin products share (fc_thin.cu, fc_thin_dx.cu): sizes, what they refuse, and 16-bit
// operands on their way from global memory into the registers of mma.m16n8k16, without shared
// memory. The tensor cores do not care which column of a matrix a column of their tile is: columns
// are dealt out so that each thread reads and writes whole vectors of neighbours. In a warp,
// `group` is lane / 4 and `member` lane % 4.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda::thin {

using Bits = std::uint16_t;  // an element of FP16 or BF16

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kTile = 16;         // rows and terms of an mma
constexpr int kWarpColumns = 64;  // eight mma tiles of 8
constexpr int kBlockColumns = kWarps * kWarpColumns;
constexpr int kFloatColumns = 128;  // of a block of fp32: a thread each
constexpr int kFloatRows = 16;      // in shared memory at a time
constexpr int kPriority = 15;       // of the kernels: before the library

__device__ inline float value_of(Bits bits, __half) { return __half2float(__ushort_as_half(bits)); }
__device__ inline float value_of(Bits bits, __nv_bfloat16) {
  return __bfloat162float(__ushort_as_bfloat16(bits));
}
__device__ inline Bits bits_of(float value, __half) {
  return __half_as_ushort(__float2half_rn(value));
}
__device__ inline Bits bits_of(float value, __nv_bfloat16) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

__device__ inline std::uint32_t packed(Bits low, Bits high) {
  return std::uint32_t(low) | std::uint32_t(high) << 16;
}
__device__ inline Bits half_of(std::uint32_t word, int half) { return Bits(word >> (16 * half)); }

/// A row-major matrix without gaps.
struct Matrix {
  const Bits* data;
  std::int64_t rows, columns;
  bool wide;  // rows begin at multiples of 16 bytes

  /// Zero outside.
  __device__ Bits at(std::int64_t row, std::int64_t column) const {
    return row < rows && column < columns ? data[row * columns + column] : Bits(0);
  }
  /// (row, column) and (row + 1, column), the lower first.
  __device__ std::uint32_t pair_down(std::int64_t row, std::int64_t column) const {
    return packed(at(row, column), at(row + 1, column));
  }
  /// (row, column) and (row, column + 1).
  __device__ std::uint32_t pair_across(std::int64_t row, std::int64_t column) const {
    return packed(at(row, column), at(row, column + 1));
  }
  /// Eight neighbours of a row; `column` is a multiple of 8.
  __device__ uint4 eight(std::int64_t row, std::int64_t column) const {
    uint4 words = {0, 0, 0, 0};
    if (row >= rows || column >= columns) return words;
    if (wide) return *reinterpret_cast<const uint4*>(data + row * columns + column);
    words.x = pair_across(row, column);
    words.y = pair_across(row, column + 2);
    words.z = pair_across(row, column + 4);
    words.w = pair_across(row, column + 6);
    return words;
  }
};

/// Eight neighbours at a multiple of 16 bytes. An assignment of a uint4 is at times compiled to
/// four stores of a word.
__device__ inline void store_eight(Bits* to, const std::uint32_t (&words)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]));
}

__device__ inline std::uint32_t word_of(const uint4& words, int index) {
  return index == 0 ? words.x : index == 1 ? words.y : index == 2 ? words.z : words.w;
}

/// Element `index` of two rows as a pair, `upper`'s first; the index is known when loops are
/// unrolled.
__device__ inline std::uint32_t pair_of(const uint4& upper, const uint4& lower, int index) {
  return __byte_perm(word_of(upper, index / 2), word_of(lower, index / 2),
                     index % 2 == 0 ? 0x5410 : 0x7632);
}

/// mma's first operand from a matrix whose rows are the terms of the sums: (outer, k) is element
/// (k, outer). From (row, column) on.
__device__ inline void load_terms_down(std::uint32_t (&a)[4], const Matrix& matrix,
                                       std::int64_t row, int column, int group, int member) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    a[i] = matrix.pair_down(row + 2 * member + i / 2 * 8, column + group + i % 2 * 8);
  }
}

constexpr std::int64_t kMostOutputs = 64;

/// Rows of dy, its columns, and the columns of the matrix behind it: x or the weights.
struct Sizes {
  std::int64_t rows = 0, outputs = 0, columns = 0;
  DType dtype = DType::FP32;

  explicit Sizes(const KernelQuery& query)
      : outputs(query.in[0].shape.back()),
        columns(query.in[1].shape.back()),
        dtype(query.in[0].dtype) {
    rows = outputs == 0 ? 0 : query.in[0].shape.num_elements() / outputs;
  }
  std::int64_t column_blocks() const {
    return ceil_div<std::int64_t>(columns, dtype == DType::FP32 ? kFloatColumns : kBlockColumns);
  }
  /// Of the grid, at most `most`, so that about `blocks` work.
  std::int64_t blocks_down(std::int64_t blocks, std::int64_t most) const {
    return std::clamp<std::int64_t>(blocks / column_blocks(), 1, std::max<std::int64_t>(most, 1));
  }
};

inline Matrix matrix(const void* data, std::int64_t rows, std::int64_t columns) {
  const auto* bits = static_cast<const Bits*>(data);
  return {bits, rows, columns, columns % 8 == 0 && aligned_to(16, bits)};
}

/// Calls f(TypeTag<T>) with a 16-bit type.
template <typename F>
void dispatch_low(DType dtype, F&& f) {
  dtype == DType::FP16 ? f(TypeTag<__half>{}) : f(TypeTag<__nv_bfloat16>{});
}

inline std::string refuse(const KernelQuery& query) {
  const DType dtype = query.in[0].dtype;
  if (!is_floating(dtype)) return not_floating("input", 0, dtype);
  if (query.in[1].dtype != dtype) return "operands are of several dtypes, expected one";
  const Sizes sizes(query);
  if (sizes.outputs < 1 || sizes.outputs > kMostOutputs) {
    return "there are " + std::to_string(sizes.outputs) + " outputs, expected 1 to 64";
  }
  if (sizes.columns < 1) return "there are no columns";
  return dtype == DType::FP32 ? "" : refuse_old_code();
}

template <typename Kernel>
KernelDef kernel(const std::string& op, std::string (*refuse)(const KernelQuery&)) {
  KernelDef def = simple_kernel(op, nullptr, refuse);
  def.name = "cuda." + op + ".thin";
  def.prepare = [](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<Kernel>(query);
  };
  return def;
}

/// dy's tile of kFloatRows rows from `row` on, zero outside.
template <int kOutputs>
__device__ void load_tile(float (&tile)[kFloatRows][kOutputs], const float* dy, std::int64_t row,
                          std::int64_t end, int num_outputs) {
  __syncthreads();
  for (int e = int(threadIdx.x); e < kFloatRows * kOutputs; e += kFloatColumns) {
    const int r = e / kOutputs, o = e % kOutputs;
    tile[r][o] = row + r < end && o < num_outputs ? dy[(row + r) * num_outputs + o] : 0.0f;
  }
  __syncthreads();
}

}  // namespace tr::cuda::thin
