// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace tr::cpu {

/// Sum of f(i) for i in [0, n) in a fixed order that vectorises: 16 running sums, then a tree.
template <typename F>
float sum_of(std::int64_t n, F&& f) {
  constexpr int kLanes = 16;
  std::array<float, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[std::size_t(lane)] += f(i + lane);
  }
  for (int lane = 0; i < n; ++i, ++lane) lanes[std::size_t(lane)] += f(i);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane)
      lanes[std::size_t(lane)] += lanes[std::size_t(lane + width)];
  }
  return lanes[0];
}

/// Sum of doubles by halves: the same order whatever wrote them.
inline double tree_sum(const double* values, std::int64_t n) {
  if (n == 0) return 0;
  if (n == 1) return values[0];
  return tree_sum(values, n / 2) + tree_sum(values + n / 2, n - n / 2);
}

}  // namespace tr::cpu
