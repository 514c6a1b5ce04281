// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "core/host_device.h"

/// Elementary functions that give the same bits on every machine and device: only + - * /,
/// comparisons, conversions and bit operations of IEEE arithmetic, built without contraction, no
/// library call. Choices are made by integer comparisons and masks: compilers keep branches around
/// floating-point comparisons, and with them no loop is vectorised (loops over exp, log, sin and
/// cos are). Maximum errors, against the exact value:
///
///   exp       0.991 ulp (over all floats)
///   log       0.834 ulp (over all floats)
///   sin, cos  0.501 ulp for |x| <= 2^27; beyond, where a float says little about an angle, NaN
///   pow       0.501 ulp, special cases as in IEEE 754 and C
///
/// tests/unit/core/det_math_test.cpp measures them.
namespace tr::det {

namespace detail {

TR_HOST_DEVICE inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
TR_HOST_DEVICE inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
TR_HOST_DEVICE inline double double_of(std::uint64_t bits) { return std::bit_cast<double>(bits); }
TR_HOST_DEVICE inline std::uint64_t bits_of(double x) { return std::bit_cast<std::uint64_t>(x); }

inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;
inline constexpr std::uint32_t kNanBits = 0x7fc00000u;

TR_HOST_DEVICE inline std::uint32_t magnitude_of(float x) { return bits_of(x) & 0x7fffffffu; }

/// a where `choose_a`, else b.
TR_HOST_DEVICE inline std::uint32_t select(bool choose_a, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = 0u - std::uint32_t(choose_a);
  return (a & mask) | (b & ~mask);
}
TR_HOST_DEVICE inline std::uint64_t select(bool choose_a, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t mask = 0u - std::uint64_t(choose_a);
  return (a & mask) | (b & ~mask);
}

// Adding these moves the units' place to the last bit of the mantissa: round to nearest even.
inline constexpr float kRoundFloat = 0x1.8p23f;
inline constexpr double kRoundDouble = 0x1.8p52;

}  // namespace detail

/// e to the power x.
TR_HOST_DEVICE inline float exp(float x) {
  using namespace detail;
  // Beyond 104 the result is infinity, below -104 zero.
  const bool in_range = magnitude_of(x) <= 0x42d00000u;
  const float c = float_of(select(in_range, bits_of(x), 0u));
  // c = n ln 2 + r, |r| <= ln 2 / 2; the first part of ln 2 has 9 bits, so its product is exact
  const float shifted = c * 1.44269504088896341f + kRoundFloat;
  const float n = shifted - kRoundFloat;
  const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
  // Source of the coefficients: Cephes expf (S. Moshier).
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = (p * (r * r) + r) + 1.0f;
  // 2^n in two factors, so that overflow and subnormal results are rounded once, by the last
  // product.
  const std::int32_t whole = std::int32_t(bits_of(shifted) - bits_of(kRoundFloat));
  const std::int32_t half = whole >> 1;
  const float first = float_of(std::uint32_t(half + 127) << 23);
  const float second = float_of(std::uint32_t(whole - half + 127) << 23);
  const float result = (y * first) * second;
  const std::uint32_t beyond = select((bits_of(x) >> 31) != 0, 0u, kInfinityBits);
  const std::uint32_t special = select(magnitude_of(x) > kInfinityBits, kNanBits, beyond);
  return float_of(select(in_range, bits_of(result), special));
}

/// Natural logarithm; -infinity at 0, NaN below.
TR_HOST_DEVICE inline float log(float x) {
  using namespace detail;
  const bool tiny = magnitude_of(x) < 0x00800000u;  // subnormal
  const float scaled = float_of(select(tiny, bits_of(x * 0x1p23f), bits_of(x)));
  // scaled = 2^e m with m in [sqrt(1/2), sqrt(2))
  const std::uint32_t shifted = bits_of(scaled) - 0x3f3504f3u;
  const std::int32_t e = (std::int32_t(shifted) >> 23) - std::int32_t(select(tiny, 23u, 0u));
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
  const float ordinary = (r + y) + n * 0.693359375f;
  std::uint32_t result = select(bits_of(x) == kInfinityBits, kInfinityBits, bits_of(ordinary));
  result = select(bits_of(x) > kInfinityBits, kNanBits, result);  // the sign bit or NaN
  result = select(magnitude_of(x) == 0, kInfinityBits | 0x80000000u, result);
  return float_of(result);
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
  const bool in_domain = magnitude_of(x) <= 0x4d000000u;  // 2^27
  const Reduced a = reduce_angle(double(float_of(select(in_domain, bits_of(x), 0u))));
  const std::uint64_t quadrant = a.quadrant + quadrant_shift;
  const std::uint64_t use_cos = 0u - (quadrant & 1u);
  const std::uint64_t size =
      (bits_of(cos_core(a.r)) & use_cos) | (bits_of(sin_core(a.r)) & ~use_cos);
  const float y = float(double_of(size ^ ((quadrant & 2u) << 62)));
  return float_of(select(in_domain, bits_of(y), kNanBits));
}

}  // namespace detail

/// Sine of x in radians.
TR_HOST_DEVICE inline float sin(float x) {
  using namespace detail;
  // Zero keeps its sign; the reduction would lose it.
  return float_of(select(magnitude_of(x) == 0, bits_of(x), bits_of(sine_of_quadrant(x, 0))));
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

/// 2 to the power t as float, rounded once; t in any range, NaN counts as 0.
TR_HOST_DEVICE inline float exp2_core(double t) {
  constexpr std::uint64_t kSign = std::uint64_t(1) << 63;
  const std::uint64_t magnitude = bits_of(t) & ~kSign;
  const std::uint64_t cut = select(magnitude > bits_of(1000.0), bits_of(1000.0), magnitude);
  const double c = double_of(
      select(magnitude > 0x7ff0000000000000u, std::uint64_t(0), cut | (bits_of(t) & kSign)));
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
  constexpr std::uint32_t kOne = 0x3f800000u, kTwoTo24 = 0x4b800000u;
  const std::uint32_t ax = magnitude_of(x), ay = magnitude_of(y);
  const bool x_negative = (bits_of(x) >> 31) != 0, y_negative = (bits_of(y) >> 31) != 0;
  // Whether y is an integer, and an odd one; from 2^24 on every float is an even integer.
  const bool y_large = ay >= kTwoTo24;
  const float y_small = float_of(select(y_large, 0u, ay));
  const auto whole = std::int32_t(y_small);
  const bool integer = y_large | (bits_of(float(whole)) == bits_of(y_small));
  const bool odd = !y_large & integer & ((whole & 1) != 0);

  const bool ordinary = (ax != 0) & (ax < kInfinityBits);
  // At |x| = 1 and infinite y the product is NaN, taken as 0: the result is 1.
  const double t = double(y) * log2_core(double(float_of(select(ordinary, ax, kOne))));
  const bool grows = y_negative != (ax > kOne);  // for |x| = 0 or infinity
  std::uint32_t result = select(ordinary, bits_of(exp2_core(t)), select(grows, kInfinityBits, 0u));
  result |= select(odd & x_negative, 0x80000000u, 0u);
  result = select(x_negative & ordinary & !integer, kNanBits, result);
  result = select((ax > kInfinityBits) | (ay > kInfinityBits), kNanBits, result);
  return float_of(select((bits_of(x) == kOne) | (ay == 0), kOne, result));
}

}  // namespace tr::det
