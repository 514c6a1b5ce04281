// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "renaissance/core/dtype.h"
#include "renaissance/core/export.h"
#include "renaissance/core/shape.h"

namespace tr {

/// A dense, contiguous array in host memory, 64-byte aligned. Copies share the bytes, as in PyTorch;
/// clone() copies them. A default-constructed Tensor, and one that was moved from, is empty: no bytes,
/// shape [0].
class TR_API Tensor {
 public:
  Tensor();
  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() = default;
  /// Uninitialised bytes.
  Tensor(const Shape& shape, DType dtype);

  static Tensor zeros(const Shape& shape, DType dtype = DType::FP32);
  /// Every element set to `value`, rounded to dtype.
  static Tensor full(const Shape& shape, double value, DType dtype = DType::FP32);
  /// Copies `values`. @throws InvalidArgument  their number is not the shape's.
  static Tensor from(const Shape& shape, std::span<const float> values);
  static Tensor from(const Shape& shape, std::span<const std::int32_t> values);
  static Tensor from(const Shape& shape, std::span<const std::int64_t> values);
  static Tensor from(const Shape& shape, std::span<const std::uint8_t> values);
  /// Uniform in [low, high): element i is draw i of (seed, TEST), the same on every machine.
  static Tensor uniform(const Shape& shape, float low, float high, std::uint64_t seed,
                        DType dtype = DType::FP32);
  /// Normal by Box-Muller over the same draws.
  static Tensor normal(const Shape& shape, float mean, float std, std::uint64_t seed,
                       DType dtype = DType::FP32);

  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  const TensorType& type() const { return type_; }
  std::int64_t num_elements() const { return type_.shape.num_elements(); }
  std::size_t num_bytes() const { return std::size_t(bytes_of(type_)); }
  bool empty() const { return data_ == nullptr; }

  void* raw() { return data_.get(); }
  const void* raw() const { return data_.get(); }
  /// Typed access: float, std::int32_t, std::int64_t, std::uint8_t, std::int8_t, bool, or a 16-bit
  /// storage type. @throws InvalidArgument  sizeof(T) is not the dtype's.
  template <typename T>
  T* data() {
    check_element_size(sizeof(T));
    return static_cast<T*>(raw());
  }
  template <typename T>
  const T* data() const {
    check_element_size(sizeof(T));
    return static_cast<const T*>(raw());
  }
  template <typename T>
  std::span<const T> values() const {
    return {data<T>(), std::size_t(num_elements())};
  }
  /// Element i in row-major order as a number, whatever the dtype. @throws InvalidArgument  out of range.
  double at(std::int64_t i) const;
  /// The only element. @throws InvalidArgument  there are more.
  double item() const;

  Tensor clone() const;
  /// Same bytes, another shape. @throws InvalidArgument  the element counts differ.
  Tensor reshape(const Shape& shape) const;
  /// Converted copy, rounding to nearest even; float to integer truncates and saturates.
  Tensor to(DType dtype) const;
  /// Copy with axes reordered: result.dim(i) = dim(order[i]).
  Tensor permute(std::span<const int> order) const;

  /// Shape, dtype and the first elements, for messages.
  std::string summary() const;

 private:
  void check_element_size(std::size_t bytes) const;

  TensorType type_;
  std::shared_ptr<std::byte> data_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// True if shapes and dtypes agree and |a - b| <= atol + rtol * |b| for every element; two NaN are equal.
TR_API bool is_close(const Tensor& a, const Tensor& b, double rtol, double atol);

}  // namespace tr
