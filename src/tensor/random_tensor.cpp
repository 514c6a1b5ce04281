// SPDX-License-Identifier: Apache-2.0

// Tensors of addressed random numbers: element i depends on (seed, i) alone.

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/det_math.h"
#include "core/philox.h"
#include "renaissance/tensor/tensor.h"

namespace tr {
namespace {

// Calls f(first element, the four words) for each block of four elements.
template <typename F>
void for_each_block(std::int64_t num_elements, std::uint64_t seed, F f) {
  for (std::int64_t i = 0; i < num_elements; i += 4) {
    const auto block = std::uint64_t(i) / 4;
    const DrawAddress address{seed, DrawPurpose::TEST, 0, block >> 32};
    f(i, address.block(std::uint32_t(block)).v);
  }
}

}  // namespace

Tensor Tensor::uniform(const Shape& shape, float low, float high, std::uint64_t seed, DType dtype) {
  TR_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high,
           "Tensor::uniform: the range is [{}, {}), expected finite and ordered", low, high);
  Tensor tensor(shape, DType::FP32);
  float* out = tensor.data<float>();
  const std::int64_t count = tensor.num_elements();
  const float below_high =
      std::max(low, std::nextafterf(high, low));  // rounding must not reach high
  for_each_block(count, seed, [&](std::int64_t first, const std::array<std::uint32_t, 4>& words) {
    for (std::int64_t i = first; i < std::min(count, first + 4); ++i) {
      const double u = double(uniform01(words[std::size_t(i - first)]));
      out[i] = std::min(below_high, float(double(low) + (double(high) - double(low)) * u));
    }
  });
  return dtype == DType::FP32 ? tensor : tensor.to(dtype);
}

Tensor Tensor::normal(const Shape& shape, float mean, float std, std::uint64_t seed, DType dtype) {
  TR_CHECK(std::isfinite(mean) && std::isfinite(std) && std >= 0,
           "Tensor::normal: mean is {}, std is {}, expected finite and std >= 0", mean, std);
  Tensor tensor(shape, DType::FP32);
  float* out = tensor.data<float>();
  const std::int64_t count = tensor.num_elements();
  for_each_block(count, seed, [&](std::int64_t first, const std::array<std::uint32_t, 4>& words) {
    for (std::int64_t i = first; i < std::min(count, first + 4); ++i) {
      // Words 0, 1 make elements 0 (cosine), 1 (sine) of the block; words 2, 3 make elements 2, 3.
      const std::size_t pair = std::size_t(i - first) & 2u;
      const float u = uniform01(words[pair]) + 0x1p-24f;  // in (0, 1]
      const float radius = std::sqrt(-2.0f * det::log(u));
      const float angle = 6.2831853071795864769f * uniform01(words[pair + 1]);
      const float z = radius * ((i - first) % 2 == 0 ? det::cos(angle) : det::sin(angle));
      out[i] = mean + std * z;
    }
  });
  return dtype == DType::FP32 ? tensor : tensor.to(dtype);
}

}  // namespace tr
