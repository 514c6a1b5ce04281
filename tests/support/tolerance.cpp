// SPDX-License-Identifier: Apache-2.0
#include "support/tolerance.h"

#include <algorithm>
#include <cmath>

namespace tr::test {

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::FP32: return 0x1p-24;
    case DType::FP16: return 0x1p-11;
    case DType::BF16: return 0x1p-8;
    default: return 0;  // integers are compared exactly
  }
}

Tolerance tolerance(DType dtype, std::int64_t summed, double scale) {
  if (!is_floating(dtype)) return {};
  const double u = unit_roundoff(dtype), u32 = unit_roundoff(DType::FP32);
  return {u + 8 * u32, std::max(4 * u, double(summed) * u32) * scale};
}

double tf32_error(std::int64_t summed) { return 7 * 0x1p-11 * std::sqrt(double(summed)); }

Tolerance run_tolerance(std::int64_t steps, bool normalising) {
  const double roundings = double(8 + steps) * (normalising ? 16 : 1);
  return {roundings * unit_roundoff(DType::FP32), roundings * unit_roundoff(DType::FP32)};
}

double free_run_band(double loss) { return 2e-3 * loss; }

Tolerance turned_basis_tolerance(std::int64_t steps) {
  const Tolerance plain = run_tolerance(steps, true);
  return {16 * plain.rtol, 16 * plain.atol};
}

Tolerance low_run_tolerance(DType low) { return {8 * unit_roundoff(low), 8 * unit_roundoff(low)}; }

}  // namespace tr::test
