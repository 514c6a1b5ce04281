// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace tr {

constexpr std::int64_t kMostInt64 = std::numeric_limits<std::int64_t>::max();

/// Of numbers that are not negative; the largest int64 where the product, or sum, exceeds it. Costs
/// are made so: a number of operations says something beyond 2^63 too.
constexpr std::int64_t saturated_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (factor == 0) return 0;
    product = product > kMostInt64 / factor ? kMostInt64 : product * factor;
  }
  return product;
}
constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  return a > kMostInt64 - b ? kMostInt64 : a + b;
}

}  // namespace tr
