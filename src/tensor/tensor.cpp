// SPDX-License-Identifier: Apache-2.0
#include "renaissance/tensor/tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "core/check.h"
#include "core/format.h"
#include "core/human.h"
#include "tensor/convert.h"
#include "tensor/dispatch.h"

namespace tr {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kAddressableBytes = std::int64_t{1} << 47;  // of a process on x86-64

std::shared_ptr<std::byte> allocate(const TensorType& type) {
  const std::int64_t num_elements = type.shape.num_elements();
  const auto element_bytes = std::int64_t(size_of(type.dtype));
  if (num_elements > kAddressableBytes / element_bytes) {
    throw_as<OutOfMemory>("tensor {}: it has more than the {} that can be addressed", type,
                          format_bytes(kAddressableBytes));
  }
  const auto num_bytes = std::size_t(num_elements * element_bytes);
  const std::size_t num_lines = std::max<std::size_t>(1, (num_bytes + kAlignment - 1) / kAlignment);
  void* bytes = std::aligned_alloc(kAlignment, num_lines * kAlignment);
  if (bytes == nullptr) {
    throw_as<OutOfMemory>("tensor {}: {} could not be had from the system", type,
                          format_bytes(std::int64_t(num_bytes)));
  }
  return {static_cast<std::byte*>(bytes), std::free};
}

template <typename T>
Tensor copy_of(const Shape& shape, DType dtype, std::span<const T> values) {
  TR_CHECK(std::int64_t(values.size()) == shape.num_elements(),
           "Tensor::from: {} values were given, shape {} has {}", values.size(), shape,
           shape.num_elements());
  Tensor tensor(shape, dtype);
  std::copy(values.begin(), values.end(), tensor.data<T>());
  return tensor;
}

}  // namespace

Tensor::Tensor() : type_{Shape{0}, DType::FP32} {}

Tensor::Tensor(Tensor&& other) noexcept : Tensor() { *this = std::move(other); }
Tensor& Tensor::operator=(Tensor&& other) noexcept {
  const TensorType type = std::exchange(other.type_, Tensor().type_);  // other may be *this
  data_ = std::move(other.data_);
  type_ = type;
  return *this;
}

Tensor::Tensor(const Shape& shape, DType dtype) : type_{shape, dtype}, data_(allocate(type_)) {}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor tensor(shape, dtype);
  std::memset(tensor.raw(), 0, tensor.num_bytes());
  return tensor;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  Tensor tensor(shape, dtype);
  dispatch_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    std::fill_n(tensor.data<T>(), tensor.num_elements(), element_from_value<T>(value));
  });
  return tensor;
}

Tensor Tensor::from(const Shape& shape, std::span<const float> values) {
  return copy_of(shape, DType::FP32, values);
}
Tensor Tensor::from(const Shape& shape, std::span<const std::int32_t> values) {
  return copy_of(shape, DType::INT32, values);
}
Tensor Tensor::from(const Shape& shape, std::span<const std::int64_t> values) {
  return copy_of(shape, DType::INT64, values);
}
Tensor Tensor::from(const Shape& shape, std::span<const std::uint8_t> values) {
  return copy_of(shape, DType::UINT8, values);
}

double Tensor::at(std::int64_t i) const {
  TR_CHECK(i >= 0 && i < num_elements(), "tensor {}: element {} is out of range, it has {}", type_,
           i, num_elements());
  return dispatch_dtype(dtype(), [&](auto tag) { return element_value(data<decltype(tag)>()[i]); });
}

double Tensor::item() const {
  TR_CHECK(num_elements() == 1, "item: tensor {} has {} elements, expected one", type_,
           num_elements());
  return at(0);
}

Tensor Tensor::clone() const {
  if (empty()) return {};
  Tensor copy(shape(), dtype());
  std::memcpy(copy.raw(), raw(), num_bytes());
  return copy;
}

Tensor Tensor::reshape(const Shape& shape) const {
  TR_CHECK(shape.num_elements() == num_elements(),
           "reshape: tensor {} has {} elements, shape {} has {}", type_, num_elements(), shape,
           shape.num_elements());
  Tensor view = *this;
  view.type_.shape = shape;
  return view;
}

Tensor Tensor::to(DType target) const {
  Tensor result(shape(), target);
  dispatch_dtype(dtype(), [&](auto from) {
    dispatch_dtype(target, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const From* source = data<From>();
      std::transform(source, source + num_elements(), result.data<To>(), convert_element<To, From>);
    });
  });
  return result;
}

Tensor Tensor::permute(std::span<const int> order) const {
  const int rank = shape().rank();
  TR_CHECK(int(order.size()) == rank, "permute: {} axes were given, tensor {} has {}", order.size(),
           type_, rank);
  std::array<std::int64_t, Shape::kMaxRank> stride{}, dims{}, step{}, index{};
  std::array<bool, Shape::kMaxRank> used{};
  std::int64_t product = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    stride[std::size_t(axis)] = product;
    product *= shape()[axis];
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    TR_CHECK(order[i] >= 0 && order[i] < rank && !used[std::size_t(order[i])],
             "permute: order [{}] is no permutation of the axes of {}", fmt::join(order, ", "),
             type_);
    used[std::size_t(order[i])] = true;
    dims[i] = shape()[order[i]];
    step[i] = stride[std::size_t(order[i])];
  }
  Tensor result(Shape(std::span(dims.data(), order.size())), dtype());
  const std::size_t element_bytes = size_of(dtype());
  std::byte* out = static_cast<std::byte*>(result.raw());
  const auto* in = static_cast<const std::byte*>(raw());
  std::int64_t at = 0;  // source element of the current index
  for (std::int64_t i = 0; i < num_elements(); ++i, out += element_bytes) {
    std::memcpy(out, in + std::size_t(at) * element_bytes, element_bytes);
    for (std::size_t axis = order.size(); axis-- > 0;) {
      at += step[axis];
      if (++index[axis] < dims[axis]) break;
      at -= dims[axis] * step[axis];
      index[axis] = 0;
    }
  }
  return result;
}

std::string Tensor::summary() const {
  constexpr std::int64_t kShown = 8;
  std::string text = to_string(type_) + " {";
  for (std::int64_t i = 0; i < std::min(kShown, num_elements()); ++i) {
    text += fmt::format("{}{:g}", i == 0 ? "" : ", ", at(i));
  }
  return text + (num_elements() > kShown ? ", ...}" : "}");
}

void Tensor::check_element_size(std::size_t bytes) const {
  TR_CHECK(bytes == size_of(dtype()), "tensor {}: accessed as elements of {} bytes, expected {}",
           type_, bytes, size_of(dtype()));
}

bool is_close(const Tensor& a, const Tensor& b, double rtol, double atol) {
  if (a.type() != b.type()) return false;
  for (std::int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    // An infinity is close to itself only; infinite tolerance must not hide it.
    if (!std::isfinite(x) || !std::isfinite(y)) return false;
    if (!(std::fabs(x - y) <= atol + rtol * std::fabs(y))) return false;
  }
  return true;
}

}  // namespace tr
