// SPDX-License-Identifier: Apache-2.0
#include "support/shared_values.h"

#include <cmath>

#include "core/fnv.h"
#include "task/file_layout.h"

namespace tr::test {
namespace {

double unit(std::uint64_t hash_of_name, std::int64_t i) {
  std::uint64_t x = hash_of_name + std::uint64_t(i) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  const auto top = std::int64_t(x >> 41);
  return double(2 * top + 1 - (1 << 23)) / double(1 << 23);
}

}  // namespace

Tensor shared_units(const std::string& name, const Shape& shape) {
  Tensor tensor(shape, DType::FP32);
  const std::uint64_t hash = fnv1a64(name);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.data<float>()[i] = float(unit(hash, i));
  }
  return tensor;
}

Tensor shared_param(const std::string& name, const ParamSpec& spec) {
  const Shape shape = file_shape(spec);
  Tensor file(shape, DType::FP32);
  const std::uint64_t hash = fnv1a64(name);
  const double bound =
      shape.rank() < 2 ? 0 : std::sqrt(6.0 / double(shape.drop_first().num_elements()));
  const bool variance = name.ends_with("running_var"), scale = name.ends_with("weight");
  for (std::int64_t i = 0; i < file.num_elements(); ++i) {
    const double u = unit(hash, i);
    double value = 0.125 * u;
    if (shape.rank() > 1) {
      value = u * bound;
    } else if (scale || variance) {
      value = 1 + (variance ? 0.5 : 0.25) * u;
    }
    file.data<float>()[i] = float(value);
  }
  return from_file_layout(file, spec);
}

Tensor shared_labels(const std::string& name, std::int64_t n, std::int64_t classes) {
  Tensor labels({n}, DType::INT32);
  const std::uint64_t hash = fnv1a64(name);
  for (std::int64_t i = 0; i < n; ++i) {
    labels.data<std::int32_t>()[i] = std::int32_t((unit(hash, i) + 1) / 2 * double(classes));
  }
  return labels;
}

}  // namespace tr::test
