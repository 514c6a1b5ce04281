// SPDX-License-Identifier: Apache-2.0
#include "ops/rules.h"

#include <cmath>

#include "core/check.h"
#include "core/format.h"

namespace tr::ops {

void check_floating(std::string_view name, const TensorType& type) {
  TR_CHECK(is_floating(type.dtype), "{} has dtype {}, expected fp32, fp16 or bf16", name,
           type.dtype);
}

void check_dtype(std::string_view name, const TensorType& type, DType expected,
                 std::string_view why) {
  TR_CHECK(type.dtype == expected, "{} has dtype {}, expected {} ({})", name, type.dtype, expected,
           why);
}

void check_shape(std::string_view name, const TensorType& type, const Shape& expected,
                 std::string_view why) {
  TR_CHECK(type.shape == expected, "{} has shape {}, expected {} ({})", name, type.shape, expected,
           why);
}

void check_rank(std::string_view name, const TensorType& type, int rank, std::string_view axes) {
  TR_CHECK(type.shape.rank() == rank, "{} has shape {}, expected {}", name, type.shape, axes);
}

void check_scalar(std::string_view name, const TensorType& type, DType dtype) {
  TR_CHECK(type.shape.rank() == 0 && type.dtype == dtype, "{} is {}, expected {} []", name, type,
           dtype);
}

void check_same(std::string_view name, const TensorType& type, const TensorType& expected,
                std::string_view why) {
  TR_CHECK(type == expected, "{} is {}, expected {} ({})", name, type, expected, why);
}

void check_eps(const Attrs& attrs) {
  const double eps = attrs.f64("eps");
  TR_CHECK(float(eps) > 0 && std::isfinite(float(eps)),
           "eps is {}, expected a positive number, as fp32", eps);
}

bool given(Types in, std::size_t index) { return index < in.size() && in[index].shape.rank() > 0; }

bool given(const std::vector<TensorId>& in, std::size_t index) {
  return index < in.size() && in[index] != kNoTensor;
}

std::int64_t bytes_moved(Types in, Types out) {
  std::int64_t sum = 0;
  for (const TensorType& type : in) sum += bytes_of(type);
  for (const TensorType& type : out) sum += bytes_of(type);
  return sum;
}

CostRule cost_per_element(int flops, int type_only_from) {
  return [=](const Attrs&, Types in, Types out) {
    const bool all_read = type_only_from < 0 || std::size_t(type_only_from) >= in.size();
    const Types read = all_read ? in : in.first(std::size_t(type_only_from));
    return Cost{flops * out[0].shape.num_elements(), bytes_moved(read, out)};
  };
}

CostRule cost_per_input_element(int flops, int index) {
  return [=](const Attrs&, Types in, Types out) {
    return Cost{flops * in[std::size_t(index)].shape.num_elements(), bytes_moved(in, out)};
  };
}

int normalised_axis(std::int64_t axis, const Shape& shape) {
  const int rank = shape.rank();
  TR_CHECK(axis >= -rank && axis < rank, "axis is {}, expected {} to {} (x has shape {})", axis,
           -rank, rank - 1, shape);
  return int(axis < 0 ? axis + rank : axis);
}

}  // namespace tr::ops
