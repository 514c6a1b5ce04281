// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/kernel.h"

namespace tr::cuda {

/// What follows a product [rows, columns] whose engine could not do it itself.
struct EpilogueCall {
  const float* product = nullptr;
  const float* bias = nullptr;  // [columns], forward only; null: none
  const void* gate = nullptr;   // [rows, columns] of `dtype`, backward only
  void* result = nullptr;       // [rows, columns] of `dtype`; may be the product itself
  DType dtype = DType::FP32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float alpha = 0;  // of the activation
};

/// One activation of the functor table.
struct Epilogue {
  /// result = f(product + bias)
  void (*forward)(const KernelArgs&, const EpilogueCall&) = nullptr;
  /// result = product * f'(gate)
  void (*backward)(const KernelArgs&, const EpilogueCall&) = nullptr;
};

/// That of activation `name`, "" being the identity; null if the table has none.
const Epilogue* find_epilogue(std::string_view name);

/// x = 0 where gate <= 0: relu's derivative by its result, in place. `count` elements of `dtype`.
void drop_where_not_positive(const KernelArgs& args, const void* gate, void* x, DType dtype,
                             std::int64_t count);

/// The same by the bits of a mask of whole rows (mask_row_bits(columns) is their number of
/// columns), 16-bit elements at multiples of 16 bytes.
void drop_where_not_marked(const KernelArgs& args, const void* mask, void* x, DType dtype,
                           std::int64_t count);

/// relu in place, and the mask of whole rows of its result as mark_positive() makes it, in one
/// pass. Elements as drop_where_not_marked() takes them.
void relu_and_mark(const KernelArgs& args, void* x, void* mask, DType dtype, std::int64_t count);

/// The mask of Fused::MASK from a gate [rows, columns]: bits where it is not <= 0, as
/// drop_where_not_positive() keeps them.
void mark_positive(const KernelArgs& args, const void* gate, void* mask, DType dtype,
                   std::int64_t rows, std::int64_t columns);

/// to = from, rounded to `dtype`.
void round_vector(const KernelArgs& args, const float* from, void* to, DType dtype,
                  std::int64_t count);

/// sums[c] = sum over r of values[r, c], in an order that depends on the shape only.
struct ColumnSums {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  DType dtype = DType::FP32;

  std::int64_t workspace_bytes() const;
  void run(const KernelArgs& args, const void* values, float* sums, std::byte* workspace) const;
};

}  // namespace tr::cuda
