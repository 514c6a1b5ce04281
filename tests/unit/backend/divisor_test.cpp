// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/divisor.h"

#include <gtest/gtest.h>

namespace tr::cuda {
namespace {

constexpr std::uint32_t kMost = (std::uint32_t{1} << 31) - 1;

testing::AssertionResult splits(std::uint32_t divisor, std::uint32_t n) {
  const Divisor::Split got = Divisor(divisor).split(n);
  if (got.quotient == n / divisor && got.rest == n % divisor) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << n << " / " << divisor << " gave " << got.quotient << ", rest " << got.rest;
}

TEST(DivisorTest, EveryDivisorAtItsMultiplesAndAtTheEnds) {
  std::vector<std::uint32_t> divisors;
  for (std::uint32_t d = 1; d <= 3000; ++d) divisors.push_back(d);
  for (int bit = 11; bit < 31; ++bit) {
    const std::uint32_t power = std::uint32_t{1} << bit;
    divisors.insert(divisors.end(), {power - 1, power, power + 1});
  }
  divisors.insert(divisors.end(), {kMost - 1, kMost});
  for (const std::uint32_t d : divisors) {
    for (const std::uint32_t n :
         {0u, 1u, d - 1, d, kMost - 1, kMost, kMost / d * d, kMost / d * d - 1, kMost / 2 / d * d,
          kMost / 2 / d * d + d - 1}) {
      if (n <= kMost) {
        ASSERT_TRUE(splits(d, n));
      }
    }
  }
}

}  // namespace
}  // namespace tr::cuda
