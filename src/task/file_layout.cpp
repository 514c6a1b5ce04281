// SPDX-License-Identifier: Apache-2.0
#include "task/file_layout.h"

#include "core/check.h"
#include "core/format.h"

namespace tr {

namespace {

Shape shape_of(const std::vector<std::int64_t>& dims) {
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

Shape file_shape(const ParamSpec& spec) {
  return spec.file.empty() ? spec.type.shape : shape_of(spec.file.shape);
}

Tensor to_file_layout(const Tensor& memory, const ParamSpec& spec) {
  if (spec.file.empty()) return memory.clone();
  return memory.reshape(shape_of(spec.file.view))
      .permute(spec.file.order)
      .reshape(file_shape(spec));
}

Tensor from_file_layout(const Tensor& file, const ParamSpec& spec) {
  TR_CHECK(file.shape() == file_shape(spec), "the file has shape {}, expected {}", file.shape(),
           file_shape(spec));
  TR_CHECK(file.dtype() == spec.type.dtype, "the file has {}, expected {}", file.dtype(),
           spec.type.dtype);
  if (spec.file.empty()) return file.clone();
  const std::vector<int>& order = spec.file.order;
  std::vector<std::int64_t> permuted(order.size());
  std::vector<int> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    permuted[i] = spec.file.view[std::size_t(order[i])];
    inverse[std::size_t(order[i])] = int(i);
  }
  return file.reshape(shape_of(permuted)).permute(inverse).reshape(spec.type.shape);
}

}  // namespace tr
