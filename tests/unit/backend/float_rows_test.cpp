// SPDX-License-Identifier: Apache-2.0
// Rows rounded to 16 bits are the elements rounded one by one.
#include "backend/cpu/float_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace tr::test {
namespace {

/// All floats whose low half is zero, a tie, beside a tie, or full: every rounding of bf16, with
/// both zeros, denormals, infinities and NaN.
std::vector<float> edges() {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000u; high += 7) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  for (const std::uint32_t bits : {0x7f800000u, 0xff800000u, 0x7f800001u, 0x7fc00000u, 0xffffffffu,
                                   0x7f7fffffu, 0x80000000u, 0x00000001u}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

template <typename T>
void check_rows() {
  const std::vector<float> values = edges();
  std::vector<T> rows(values.size());
  cpu::store_floats(values.data(), rows.data(), std::int64_t(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(rows[i].bits, from_float<T>(values[i]).bits)
        << std::hex << std::bit_cast<std::uint32_t>(values[i]);
  }
}

TEST(FloatRowsTest, Bf16RoundsAsOneElement) { check_rows<BFloat16>(); }
TEST(FloatRowsTest, HalfRoundsAsOneElement) { check_rows<Half>(); }

}  // namespace
}  // namespace tr::test
