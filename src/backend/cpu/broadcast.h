// SPDX-License-Identifier: Apache-2.0
#pragma once

// How small tensors repeat inside a large one, and rows of operands of any floating dtype.

#include <array>
#include <cstdint>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {

/// How a small shape repeats inside a large one, axes aligned at the back: step of the small
/// tensor's element for one step along each axis of the large one, 0 where it repeats.
struct Broadcast {
  int rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> dims{};  // of the large one
  std::array<std::int64_t, Shape::kMaxRank> steps{};

  Broadcast() = default;
  Broadcast(const Shape& large, const Shape& small) : rank(large.rank()) {
    std::int64_t step = 1;
    for (int axis = rank - 1, at = small.rank() - 1; axis >= 0; --axis, --at) {
      dims[std::size_t(axis)] = large[axis];
      const std::int64_t length = at >= 0 ? small[at] : 1;
      steps[std::size_t(axis)] = length == 1 ? 0 : step;
      step *= length;
    }
  }
  std::int64_t columns() const { return rank == 0 ? 1 : dims[std::size_t(rank - 1)]; }
  bool repeats_columns() const { return rank == 0 || steps[std::size_t(rank - 1)] == 0; }
  /// Element of the small tensor where row `row` of the large one begins.
  std::int64_t offset_of_row(std::int64_t row) const {
    std::int64_t offset = 0;
    for (int axis = rank - 2; axis >= 0; --axis) {
      offset += row % dims[std::size_t(axis)] * steps[std::size_t(axis)];
      row /= dims[std::size_t(axis)];
    }
    return offset;
  }
};

/// Elements [at, at + n) of a floating tensor as fp32: in place, or in `buffer`; n <= kRowBlock.
inline const float* floats_of(const void* data, DType dtype, std::int64_t at, std::int64_t n,
                              float* buffer) {
  switch (dtype) {
    case DType::FP16: return as_floats(static_cast<const Half*>(data) + at, buffer, n);
    case DType::BF16: return as_floats(static_cast<const BFloat16*>(data) + at, buffer, n);
    default: return static_cast<const float*>(data) + at;
  }
}

/// A floating tensor that is broadcast to a large shape.
struct FloatOperand {
  const void* data = nullptr;
  DType dtype = DType::FP32;
  Broadcast map;

  /// Columns [column, column + n) of row `row` of the large shape; n <= kRowBlock.
  const float* row(std::int64_t row, std::int64_t column, std::int64_t n, float* buffer) const {
    const std::int64_t begin = map.offset_of_row(row);
    if (!map.repeats_columns()) return floats_of(data, dtype, begin + column, n, buffer);
    const float value = *floats_of(data, dtype, begin, 1, buffer);
    std::fill_n(buffer, n, value);
    return buffer;
  }
};

/// Input i of a launch as an operand of the shape `large`, to which it broadcasts.
inline FloatOperand float_operand(const KernelArgs& args, int i, const Shape& large) {
  const auto& [shape, dtype] = args.in_type(i);
  const bool whole = shape.num_elements() == large.num_elements();
  return {args.in<void>(i), dtype, Broadcast(large, whole ? large : shape)};
}

/// The shape of output 0, as one long row if none of the inputs is repeated to it.
inline Shape rows_of_output(const KernelArgs& args, std::initializer_list<int> inputs) {
  const Shape& out = args.out_type(0).shape;
  for (const int i : inputs) {
    if (args.in_type(i).shape.num_elements() != out.num_elements()) return out;
  }
  return Shape{out.num_elements()};
}

/// Calls f(row, column, n) for runs of at most kRowBlock columns that cover every row of `shape`
/// once, on the pool's threads; the cut depends on the shape alone.
template <typename F>
void for_row_runs(ThreadPool& pool, const Shape& shape, F&& f) {
  const std::int64_t count = shape.num_elements();
  if (count == 0) return;
  const std::int64_t columns = shape.rank() == 0 ? 1 : shape.back();
  const std::int64_t pieces = ceil_div(columns, kStreamChunk);
  const std::int64_t chunk = pieces > 1 ? 1 : rows_per_task(columns);
  for_chunks(pool, count / columns * pieces, chunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % pieces * kStreamChunk;
      const std::int64_t last = std::min(columns, first + kStreamChunk);
      for (std::int64_t column = first; column < last; column += kRowBlock) {
        f(unit / pieces, column, std::min(kRowBlock, last - column));
      }
    }
  });
}

/// Sums fp32 values of the shape `large` to the type `out`, in an order fixed by the shapes. `sums`
/// is scratch for one float an element of the result.
void sum_floats_to(ThreadPool& pool, const float* values, const Shape& large,
                   const TensorType& out_type, void* out, float* sums);

}  // namespace tr::cpu
