// SPDX-License-Identifier: Apache-2.0
#include "core/half.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/cpu_info.h"

namespace tr {
namespace {

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// The processor's own conversion is the referee.
std::uint16_t hardware_half(float x) {
  return std::uint16_t(
      _mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT), 0));
}
float hardware_float(std::uint16_t bits) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(int(bits))));
}

/// Calls f with floats of every kind: a walk over all bit patterns, and the neighbourhood of each
/// half and of the middle between it and the next.
template <typename F>
void for_many_floats(F f) {
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += 1021) f(float_of(std::uint32_t(u)));
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const std::uint32_t at = bits_of(to_float(Half{std::uint16_t(h)}));
    for (const std::uint32_t middle : {0u, 0x1000u, 0x8000u}) {
      for (const std::uint32_t step : {0u, 1u, 0xffffffffu}) f(float_of(at + middle + step));
    }
  }
}

TEST(HalfTest, AllHalvesBecomeTheHardwaresFloats) {
  ASSERT_TRUE(cpu_info().has("f16c"));
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    ASSERT_EQ(bits_of(to_float(Half{std::uint16_t(h)})), bits_of(hardware_float(std::uint16_t(h))))
        << h;
  }
}

TEST(HalfTest, FloatsRoundAsTheHardware) {
  std::int64_t wrong = 0;
  for_many_floats([&](float x) { wrong += from_float<Half>(x).bits != hardware_half(x); });
  EXPECT_EQ(wrong, 0);
}

TEST(HalfTest, SpecialValues) {
  EXPECT_EQ(from_float<Half>(65504.0f).bits, 0x7bff);
  EXPECT_EQ(from_float<Half>(65519.996f).bits, 0x7bff);
  EXPECT_EQ(from_float<Half>(65520.0f).bits,
            0x7c00);  // the tie goes to the even neighbour: infinity
  EXPECT_EQ(from_float<Half>(-INFINITY).bits, 0xfc00);
  EXPECT_EQ(from_float<Half>(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(from_float<Half>(0x1p-25f).bits, 0x0000);  // tie to even
  EXPECT_EQ(from_float<Half>(-0.0f).bits, 0x8000);
  EXPECT_TRUE(std::isnan(to_float(from_float<Half>(NAN))));
}

/// Nearest bfloat16 by comparing exact distances, ties to the even one.
std::uint16_t reference_bf16(float x) {
  const std::uint32_t u = bits_of(x);
  if (std::isnan(x)) return std::uint16_t((u >> 16) | 0x40u);
  const std::uint32_t lower = u & 0xffff0000u, upper = lower + 0x10000u;  // by magnitude
  if (std::isinf(x)) return std::uint16_t(lower >> 16);
  // The neighbour above the largest bfloat16 counts as 2^128, so that values round to infinity from
  // there.
  const double magnitude = std::fabs(double(x));
  const double low = std::fabs(double(float_of(lower)));
  const double high = std::isinf(float_of(upper)) ? 0x1p128 : std::fabs(double(float_of(upper)));
  const bool up = high - magnitude < magnitude - low ||
                  (high - magnitude == magnitude - low && (lower >> 16 & 1u) != 0);
  return std::uint16_t((up ? upper : lower) >> 16);
}

TEST(BFloat16Test, FloatsRoundToNearestEven) {
  std::int64_t wrong = 0;
  for_many_floats([&](float x) { wrong += from_float<BFloat16>(x).bits != reference_bf16(x); });
  EXPECT_EQ(wrong, 0);
}

TEST(BFloat16Test, RoundTripIsExact) {
  for (std::uint32_t b = 0; b < 0x10000; ++b) {
    const float x = to_float(BFloat16{std::uint16_t(b)});
    if (std::isnan(x)) continue;
    ASSERT_EQ(from_float<BFloat16>(x).bits, b);
  }
}

}  // namespace
}  // namespace tr
