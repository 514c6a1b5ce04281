// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace tr::cpu {

/// An elementwise op on fp32 rows, for kernels that apply it to results while they are hot. Rows
/// may be the same (in place); else they must not overlap.
struct ActivationRows {
  /// y[i] = f(x[i])
  void (*forward)(const float* x, float* y, std::int64_t n, float alpha) = nullptr;
  /// dx[i] = dy[i] * f'(saved[i]), saved being x or y by the functor
  void (*backward)(const float* saved, const float* dy, float* dx, std::int64_t n,
                   float alpha) = nullptr;
};

/// The rows of the functor table's entry `name`; null if there is none.
const ActivationRows* find_activation(std::string_view name);

}  // namespace tr::cpu
