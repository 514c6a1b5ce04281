// SPDX-License-Identifier: Apache-2.0
#include "core/det_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/fnv.h"
#include "core/philox.h"

namespace tr {
namespace {

constexpr double kWrong = 1e30;

/// |got - want| in spacings of floats around want; kWrong where infinity, zero's sign or NaN
/// disagree.
double error_ulp(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : kWrong;
  const float rounded = float(want);
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : kWrong;
  if (rounded == 0 && got == 0 && std::signbit(rounded) != std::signbit(got)) return kWrong;
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::fabs(double(got) - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// Greatest error over a walk through all floats with |x| <= limit, NaN and infinity among them if
/// it is.
template <typename F, typename Reference>
double worst_ulp(F f, Reference reference, float limit) {
  double worst = 0;
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += 2039) {
    const float x = std::bit_cast<float>(std::uint32_t(u));
    if (std::fabs(x) > limit) continue;
    worst = std::max(worst, error_ulp(f(x), reference(double(x))));
  }
  return worst;
}

constexpr float kAll = std::numeric_limits<float>::infinity();

TEST(DetMathTest, ExpIsWithinItsBound) {
  EXPECT_LE(worst_ulp(
                det::exp, [](double x) { return std::exp(x); }, kAll),
            0.991);
}

TEST(DetMathTest, LogIsWithinItsBound) {
  EXPECT_LE(worst_ulp(
                det::log, [](double x) { return std::log(x); }, kAll),
            0.834);
}

TEST(DetMathTest, SinAndCosAreWithinTheirBounds) {
  EXPECT_LE(worst_ulp(
                det::sin, [](double x) { return std::sin(x); }, 0x1p27f),
            0.501);
  EXPECT_LE(worst_ulp(
                det::cos, [](double x) { return std::cos(x); }, 0x1p27f),
            0.501);
}

// Where the bounds are reached, and around the multiples of pi/2, where cancellation is worst.
TEST(DetMathTest, HardArguments) {
  EXPECT_LE(error_ulp(det::exp(70.4030991f), std::exp(double(70.4030991f))), 0.991);
  EXPECT_LE(error_ulp(det::log(1.41303062f), std::log(double(1.41303062f))), 0.834);
  for (int n = -200000; n <= 200000; n += 7) {
    const float at = float(n * 1.5707963267948966);
    for (const float x : {at, std::nextafterf(at, kAll), std::nextafterf(at, -kAll)}) {
      ASSERT_LE(error_ulp(det::sin(x), std::sin(double(x))), 0.501) << x;
      ASSERT_LE(error_ulp(det::cos(x), std::cos(double(x))), 0.501) << x;
    }
  }
}

TEST(DetMathTest, AnglesWithoutMeaningAreNan) {
  EXPECT_TRUE(std::isnan(det::sin(std::nextafterf(0x1p27f, kAll))));
  EXPECT_TRUE(std::isnan(det::cos(-kAll)));
  EXPECT_TRUE(std::isnan(det::sin(NAN)));
}

TEST(DetMathTest, SpecialValues) {
  EXPECT_EQ(det::exp(0.0f), 1.0f);
  EXPECT_EQ(det::exp(-0.0f), 1.0f);
  EXPECT_EQ(det::exp(89.0f), kAll);
  EXPECT_EQ(det::exp(-kAll), 0.0f);
  EXPECT_EQ(det::exp(-104.0f), 0.0f);
  EXPECT_EQ(det::exp(-103.0f), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(det::log(1.0f), 0.0f);
  EXPECT_EQ(det::log(0.0f), -kAll);
  EXPECT_EQ(det::log(-0.0f), -kAll);
  EXPECT_EQ(det::log(kAll), kAll);
  EXPECT_TRUE(std::isnan(det::log(-1.0f)));
  EXPECT_TRUE(std::signbit(det::sin(-0.0f)));
  EXPECT_EQ(det::cos(0.0f), 1.0f);
}

TEST(DetMathTest, PowIsWithinItsBound) {
  double worst = 0;
  for (std::uint32_t i = 0; i < 400000; ++i) {
    const auto w = DrawAddress{11, DrawPurpose::TEST, 0, 0}.block(i).v;
    // Half the cases take any bits, half moderate values, in which the result is ordinary.
    float x = std::bit_cast<float>(w[0]), y = std::bit_cast<float>(w[1]);
    if (i % 2 == 0) {
      x = std::ldexp(1.0f + uniform01(w[0]), int(w[2] % 16) - 8) * (w[3] % 8 == 0 ? -1.0f : 1.0f);
      y = uniform01(w[1]) * 30.0f - 15.0f;
      if (w[3] % 3 == 0) y = std::round(y);
    }
    worst = std::max(worst, error_ulp(det::pow(x, y), std::pow(double(x), double(y))));
  }
  EXPECT_LE(worst, 0.501);
}

TEST(DetMathTest, PowFollowsTheSpecialCasesOfC) {
  const std::vector<float> values{
      0.0f,   -0.0f,   1.0f,  -1.0f,  2.0f,        -2.0f,        3.0f,        -3.0f, 0.5f,  -0.5f,
      1e-45f, -1e-45f, 3e38f, -3e38f, 16777215.0f, -16777215.0f, 16777216.0f, kAll,  -kAll, NAN};
  for (const float x : values) {
    for (const float y : values) {
      EXPECT_LE(error_ulp(det::pow(x, y), double(std::pow(x, y))), 0.501)
          << "pow(" << x << ", " << y << ")";
    }
  }
}

TEST(DetMathTest, ALoopGivesTheBitsOfSingleCalls) {
  constexpr int kCount = 1003;
  std::vector<float> x(kCount), e(kCount), l(kCount), s(kCount);
  for (int i = 0; i < kCount; ++i) x[std::size_t(i)] = float(i - 300) * 0.37f;
  for (std::size_t i = 0; i < x.size(); ++i) e[i] = det::exp(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) l[i] = det::log(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) s[i] = det::sin(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const volatile float single = x[i];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(e[i]), std::bit_cast<std::uint32_t>(det::exp(single)));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(l[i]), std::bit_cast<std::uint32_t>(det::log(single)));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(s[i]), std::bit_cast<std::uint32_t>(det::sin(single)));
  }
}

// The bits are part of what a seed means (augmentation, initialisation): they never change.
TEST(DetMathTest, BitsAreFrozen) {
  std::string bits;
  const auto add = [&](float y) {
    for (int k = 0; k < 4; ++k) bits += char(std::bit_cast<std::uint32_t>(y) >> (8 * k));
  };
  for (int i = -2000; i <= 2000; ++i) {
    const float x = float(i) * 0.0451f;
    add(det::exp(x));
    add(det::log(std::fabs(x) + 1e-3f));
    add(det::sin(x));
    add(det::cos(x));
    add(det::pow(std::fabs(x), 1.7f));
  }
  EXPECT_EQ(fnv1a64(bits), 10819995669239952248u);
}

}  // namespace
}  // namespace tr
