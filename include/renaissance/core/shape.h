// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "renaissance/core/dtype.h"
#include "renaissance/core/export.h"

namespace tr {

/// Dimensions of a tensor, rank 0 (a scalar) to 8. Images are [N, H, W, C].
/// @throws InvalidArgument  a negative dimension, a rank above 8, or an element count above 2^47.
class TR_API Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  /// Negative indices count from the back. @throws InvalidArgument  the index is out of range.
  std::int64_t dim(int index) const;
  std::int64_t operator[](int index) const { return dim(index); }
  std::int64_t back() const { return dim(-1); }
  std::int64_t num_elements() const;
  std::span<const std::int64_t> dims() const { return {dims_.data(), std::size_t(rank_)}; }

  Shape with_dim(int index, std::int64_t value) const;
  Shape drop_first() const;
  Shape drop_last() const;
  Shape prepend(std::int64_t value) const;

  /// "[200, 28, 28, 1]"
  std::string str() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.dims_ == b.dims_;
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// What is known of a tensor before it has a place in memory.
struct TensorType {
  Shape shape;
  DType dtype = DType::FP32;

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

inline std::int64_t bytes_of(const TensorType& type) {
  return type.shape.num_elements() * std::int64_t(size_of(type.dtype));
}

/// "fp16 [256, 112, 112, 64]"
TR_API std::string to_string(const TensorType& type);

}  // namespace tr
