// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "bench_report.h"
#include "renaissance/core/dtype.h"

namespace tr::bench {

/// Multiplications and additions in the products of one training step of an MLP whose layers go
/// from sizes[i] to sizes[i + 1]: y, dx and dW of each, but no dx of the first. What is computed
/// element by element is not counted.
constexpr double step_flops(std::int64_t batch, std::span<const std::int64_t> sizes) {
  double products = 0;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    products += (i == 0 ? 2.0 : 3.0) * double(sizes[i]) * double(sizes[i + 1]);
  }
  return 2 * double(batch) * products;
}

/// What the operands of a measured product are: a GPU holds a higher clock where few bits change.
enum class Operands : std::uint8_t { UNIFORM, CONSTANT };

/// The library's fastest plain product of a few large shapes, sums in fp32, the result in the
/// operands' dtype.
struct MatmulPeak {
  std::string shape;  // "8192x8192x8192"
  Summary tflops;
};
/// Each shape takes about a quarter of a second, so that the clock is one that lasts. Takes 0.6 GB
/// of the device's memory meanwhile. @throws DeviceError  the library has no algorithm.
MatmulPeak measure_matmul_peak(int device, DType dtype, Operands operands);

}  // namespace tr::bench
