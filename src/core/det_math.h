// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "core/host_device.h"

/// Elementary functions that give the same bits on every machine and device: only + - * /, comparisons,
/// conversions and bit operations of IEEE arithmetic, built without contraction, no library call. They have
/// no branches, so that loops over them are vectorised. Maximum errors, against the exact value:
///
///   exp   1.00 ulp  (all floats; subnormal results 0.51 ulp of their spacing)
///   log   0.87 ulp  (all floats)
///   sin, cos  0.501 ulp for |x| <= 2^27; beyond, where a float says little about an angle, NaN
///   pow   0.51 ulp, special cases as IEEE 754 / C
///
/// tests/unit/core/det_math_test.cpp measures them.
namespace tr::det {

namespace detail {

TR_HOST_DEVICE inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
TR_HOST_DEVICE inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
TR_HOST_DEVICE inline double double_of(std::uint64_t bits) { return std::bit_cast<double>(bits); }
TR_HOST_DEVICE inline std::uint64_t bits_of(double x) { return std::bit_cast<std::uint64_t>(x); }

inline constexpr float kInfinity = std::bit_cast<float>(0x7f800000u);
inline constexpr float kNan = std::bit_cast<float>(0x7fc00000u);

// Adding these moves the units' place to the last bit of the mantissa: round to nearest even.
inline constexpr float kRoundFloat = 0x1.8p23f;
inline constexpr double kRoundDouble = 0x1.8p52;

}  // namespace detail

/// e to the power x.
TR_HOST_DEVICE inline float exp(float x) {
  using namespace detail;
  // x = n ln 2 + r, |r| <= ln 2 / 2. Clamped so that n stays in range; NaN passes through r.
  const float clamped_high = x > 89.0f ? 89.0f : x;
  const float c = clamped_high < -104.0f ? -104.0f : clamped_high;
  const float shifted = c * 1.44269504088896341f + kRoundFloat;
  const float n = shifted - kRoundFloat;
  const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;  // the first constant has 9 bits: exact
  // Source of the coefficients: Cephes expf (S. Moshier).
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = (p * (r * r) + r) + 1.0f;
  // 2^n in two factors, so that overflow and subnormal results are rounded once, by the last product.
  const std::int32_t whole = std::int32_t(bits_of(shifted) - bits_of(kRoundFloat));
  const std::int32_t half = whole >> 1;
  const float first = float_of(std::uint32_t(half + 127) << 23);
  const float second = float_of(std::uint32_t(whole - half + 127) << 23);
  const float result = (y * first) * second;
  return x != x ? x : result;
}

/// Natural logarithm; -infinity at 0, NaN below.
TR_HOST_DEVICE inline float log(float x) {
  using namespace detail;
  const bool tiny = x < 0x1p-126f;
  const float scaled = tiny ? x * 0x1p23f : x;
  // scaled = 2^e m with m in [sqrt(1/2), sqrt(2))
  const std::uint32_t shifted = bits_of(scaled) - 0x3f3504f3u;
  const std::int32_t e = (std::int32_t(shifted) >> 23) - (tiny ? 23 : 0);
  const float m = float_of((shifted & 0x7fffffu) + 0x3f3504f3u);
  const float r = m - 1.0f;
  const float n = float(e);
  const float z = r * r;
  // Source of the coefficients: Cephes logf (S. Moshier).
  float p = 7.0376836292e-2f;
  p = p * r - 1.1514610310e-1f;
  p = p * r + 1.1676998740e-1f;
  p = p * r - 1.2420140846e-1f;
  p = p * r + 1.4249322787e-1f;
  p = p * r - 1.6668057665e-1f;
  p = p * r + 2.0000714765e-1f;
  p = p * r - 2.4999993993e-1f;
  p = p * r + 3.3333331174e-1f;
  float y = r * z * p;
  y = y + n * -2.12194440e-4f;
  y = y - 0.5f * z;
  float result = (r + y) + n * 0.693359375f;
  result = x == kInfinity ? x : result;
  result = x == 0.0f ? -kInfinity : result;
  result = x < 0.0f ? kNan : result;
  return x != x ? x : result;
}

namespace detail {

/// An angle as quadrant and remainder: x = quadrant pi/2 + r, |r| <= pi/4. For |x| <= 2^27.
struct Reduced {
  double r;
  std::uint64_t quadrant;  // its lowest two bits count
};

TR_HOST_DEVICE inline Reduced reduce_angle(double x) {
  const double shifted = x * 0x1.45f306dc9c883p-1 + kRoundDouble;
  const double n = shifted - kRoundDouble;
  // pi/2 in three parts of 26, 26 and 53 bits: the first two products are exact for |n| < 2^27.
  const double r = ((x - n * 0x1.921fb5p+0) - n * 0x1.110b46p-26) - n * 0x1.1a62633145c07p-54;
  return {r, bits_of(shifted)};
}

TR_HOST_DEVICE inline double sin_core(double r) {
  const double z = r * r;
  double p = -2.50507477628578072866e-08;
  p = p * z + 2.75573136213857245213e-06;
  p = p * z - 1.98412698295895385996e-04;
  p = p * z + 8.33333333332211858878e-03;
  p = p * z - 1.66666666666666307295e-01;
  return r + r * z * p;
}

TR_HOST_DEVICE inline double cos_core(double r) {
  const double z = r * r;
  double p = 2.08757008419747316778e-09;
  p = p * z - 2.75573141792967388112e-07;
  p = p * z + 2.48015872888517045348e-05;
  p = p * z - 1.38888888888730564116e-03;
  p = p * z + 4.16666666666665929218e-02;
  return (1.0 - 0.5 * z) + z * z * p;
}

/// Sine of x + quadrant_shift * pi/2. Source of the polynomials: Cephes sin.c (S. Moshier).
TR_HOST_DEVICE inline float sine_of_quadrant(float x, std::uint64_t quadrant_shift) {
  const bool in_domain = (bits_of(x) & 0x7fffffffu) <= 0x4d000000u;  // 2^27
  const Reduced a = reduce_angle(double(in_domain ? x : 0.0f));
  const std::uint64_t quadrant = a.quadrant + quadrant_shift;
  const double s = sin_core(a.r), c = cos_core(a.r);
  const double magnitude = (quadrant & 1u) != 0 ? c : s;
  const double y = double_of(bits_of(magnitude) ^ ((quadrant & 2u) << 62));
  return in_domain ? float(y) : kNan;
}

}  // namespace detail

/// Sine of x in radians.
TR_HOST_DEVICE inline float sin(float x) {
  // Zero keeps its sign; the reduction would lose it.
  return x == 0.0f ? x : detail::sine_of_quadrant(x, 0);
}

/// Cosine of x in radians.
TR_HOST_DEVICE inline float cos(float x) { return detail::sine_of_quadrant(x, 1); }

namespace detail {

/// log2 of a positive finite double with relative error below 1e-12 near 1 and elsewhere.
TR_HOST_DEVICE inline double log2_core(double x) {
  const std::uint64_t shifted = bits_of(x) - 0x3fe6a09e667f3bcdu;
  // Arithmetic shift of the 64-bit word, kept to 32 bits: vector units lack the wide one.
  const std::int32_t e = std::int32_t(std::uint32_t(shifted >> 32)) >> 20;
  const double m = double_of((shifted & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
  // log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716: a series in s^2
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  const double ln = 2.0 * s + 2.0 * s * z * p;
  return double(e) + ln * 1.4426950408889634074;
}

/// 2 to the power t as float, rounded once; t in any range.
TR_HOST_DEVICE inline float exp2_core(double t) {
  const double high = t > 1000.0 ? 1000.0 : t;
  const double c = high < -1000.0 ? -1000.0 : high;
  const double shifted = c + kRoundDouble;
  const double r = (c - (shifted - kRoundDouble)) * 0.69314718055994530942;
  double p = 1.0 / 39916800;  // Taylor to r^11: |r| <= ln 2 / 2 leaves 6e-15
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const std::uint64_t n = bits_of(shifted) - bits_of(kRoundDouble);
  return float(p * double_of((n + 1023u) << 52));
}

}  // namespace detail

/// x to the power y.
TR_HOST_DEVICE inline float pow(float x, float y) {
  using namespace detail;
  const float ax = float_of(bits_of(x) & 0x7fffffffu);
  const float ay = float_of(bits_of(y) & 0x7fffffffu);
  // Whether y is an integer, and an odd one; from 2^24 on every float is even.
  const float ay_small = ay < 0x1p24f ? ay : 0.0f;
  const std::int32_t whole = std::int32_t(ay_small);
  const bool integer = ay >= 0x1p24f || float(whole) == ay_small;
  const bool odd = integer && (whole & 1) != 0 && ay < 0x1p24f;

  const bool ordinary = ax > 0.0f && ax < kInfinity;
  const double t = double(y) * log2_core(ordinary ? double(ax) : 1.0);
  float result = exp2_core(t == t ? t : 0.0);  // infinity * 0 at x = 1 gives NaN, the result is 1
  const bool grows = (y > 0.0f) == (ax > 1.0f);  // for |x| = 0 or infinity
  result = ordinary ? result : (grows ? kInfinity : 0.0f);
  const std::uint32_t sign = odd ? bits_of(x) & 0x80000000u : 0u;
  result = float_of(bits_of(result) | sign);
  result = x < 0.0f && x > -kInfinity && !integer ? kNan : result;
  result = x != x || y != y ? kNan : result;
  return x == 1.0f || y == 0.0f ? 1.0f : result;
}

}  // namespace tr::det
