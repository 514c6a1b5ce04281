// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel.h"

namespace tr::cuda {

/// C = alpha op(A) op(B) + beta D, all row-major and without gaps: C [m, n]; A [m, k], or [k, m] if
/// transposed; B [k, n], or [n, k] if transposed. Sums are fp32.
struct ProductShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  DType dtype = DType::FP32;   // of A and B
  DType result = DType::FP32;  // of C: FP32, or that of A and B
  /// Products that one launch makes: C's lie one behind the other, A's and B's so many elements
  /// apart. Fused::NONE only.
  std::int64_t batch = 1;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  /// Other than 1 and 0: Fused::NONE only. D lies as C does.
  float alpha = 1, beta = 0;

  std::int64_t result_elements() const { return m * n; }
};

/// What a product may do beside multiplying, where its engine can.
enum class Fused : std::uint8_t {
  NONE,
  BIAS,         // C[i, j] += vector[j]
  COLUMN_SUMS,  // vector[i] = sum over k of op(A)[i, k]
  MASK          // C[i, j] = 0 where bit j of row i of `vector` is not set; see mask_row_bits()
};

/// Bits from row to row of a mask, bit j % 8 of byte j / 8 first.
inline std::int64_t mask_row_bits(std::int64_t columns) { return (columns + 127) / 128 * 128; }

/// The gate of fc_dx is a mask, one bit an element that relu let through, as fc_marked makes it.
inline bool has_mask(const KernelQuery& query) {
  return query.in.size() > 2 && query.in[2].dtype == DType::UINT8;
}

/// Operands of one launch. `vector`, as `Fused` says, is of the result's dtype, or a mask; `addend`
/// is D, another matrix than C, where beta is not 0.
struct ProductOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* vector = nullptr;
  std::byte* workspace = nullptr;
  const void* addend = nullptr;
};

/// A product made ready for its shape. run() only enqueues; equal operands give equal bytes.
class Product {
 public:
  virtual ~Product() = default;
  virtual void run(const KernelArgs& args, const ProductOperands& operands) const = 0;
};

/// What computes products.
struct ProductEngine {
  std::string name;  // "cublaslt"
  int priority = 0;
  /// Empty: it may take the shape; else why not. Asks no device.
  std::string (*refuse)(const ProductShape&) = nullptr;
  std::int64_t (*workspace_bytes)(const ProductShape&) = nullptr;
  /// For the current device; null if the engine has nothing for this shape and fusion there, or
  /// refuses the algorithm. Empty algorithm: its first.
  std::unique_ptr<Product> (*make)(const ProductShape&, Fused,
                                   std::string_view algorithm) = nullptr;
  /// At most `most` algorithms of the current device, the most promising first. Null: the engine
  /// has one, whose name is empty.
  std::vector<std::string> (*algorithms)(const ProductShape&, Fused, int most) = nullptr;
};

/// cuBLASLt by its own heuristics; takes no empty shapes.
const ProductEngine& cublaslt_engine();
/// The same with fp32 operands cut to TF32 (10 bits of mantissa), sums in fp32; takes fp32 alone.
const ProductEngine& cublaslt_tf32_engine();
/// Our own tiled kernel for every shape; Fused::NONE only.
const ProductEngine& simt_engine();

}  // namespace tr::cuda
