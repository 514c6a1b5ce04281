// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/det_math.h"
#include "core/pixel/uniform.h"

namespace tr::pixel {

// Normally distributed noise in integers: 16 bits of a word give a sign and one of 4096 equally
// likely sizes, the quantiles of the half-normal distribution (their deviation is 0.9998, the
// largest 3.85).

constexpr std::int32_t kNoiseSizes = 4096;
constexpr std::int32_t kNoiseBits = 12;                           // fractional bits of a size
constexpr std::int32_t kDeviationBits = 8;                        // of a deviation in levels
constexpr std::int32_t kLevelBits = kNoiseBits + kDeviationBits;  // of their product

/// Quantile of the standard normal distribution at p in [0.5, 1). Source of the rational functions:
/// P. J. Acklam's algorithm, relative error 1.15e-9.
TR_HOST_DEVICE inline double normal_quantile(double p) {
  if (p > 0.97575) {
    const double q = std::sqrt(-2.0 * double(det::log(float(1 - p))));
    const double numerator =
        ((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838) * q -
          2.549732539343734) *
             q +
         4.374664141464968) *
            q +
        2.938163982698783;
    const double denominator =
        (((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996) * q +
         3.754408661907416) *
            q +
        1;
    return -numerator / denominator;
  }
  const double q = p - 0.5, r = q * q;
  const double numerator =
      ((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
        1.383577518672690e+02) *
           r -
       3.066479806614716e+01) *
          r +
      2.506628277459239;
  const double denominator =
      ((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
        6.680131188771972e+01) *
           r -
       1.328068155288572e+01) *
          r +
      1;
  return q * numerator / denominator;
}

/// Entry `i` of the table of sizes.
TR_HOST_DEVICE inline std::int16_t noise_size(std::int32_t i) {
  const double p = 0.5 + (double(i) + 0.5) / double(2 * kNoiseSizes);
  return std::int16_t(normal_quantile(p) * double(1 << kNoiseBits) + 0.5);
}

struct NoiseLevels {
  std::int32_t mean = 0;       // levels, kLevelBits fractional bits
  std::int32_t deviation = 0;  // levels, kDeviationBits fractional bits
};

/// Noise of 16 random bits, in whole levels; `size` is the table's entry for (bits >> 3) & 4095.
TR_HOST_DEVICE inline std::int32_t noise_of(std::uint32_t bits, std::int32_t size,
                                            const NoiseLevels& levels) {
  const std::int32_t product = size * levels.deviation;
  const std::int32_t shifted =
      (bits & 0x8000u) != 0 ? levels.mean - product : levels.mean + product;
  return (shifted + (1 << (kLevelBits - 1))) >> kLevelBits;
}

/// The eight draws of 16 bits for elements 8 k .. 8 k + 7 of an image: words 0..3 of a block of
/// purpose NOISE, the lower half first.
TR_HOST_DEVICE inline Philox4 noise_block(const StepDraws& draws, std::uint32_t k) {
  DrawAddress address = draws.address;
  address.purpose = DrawPurpose::NOISE;
  return address.block((draws.step << 26) | k);
}

}  // namespace tr::pixel
