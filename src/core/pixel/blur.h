// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/det_math.h"
#include "core/pixel/uniform.h"

namespace tr::pixel {

// A Gaussian blur in integers: weights of 16 bits whose sum is exactly 1, across into 16 bits (8 of
// them fractional), then down.

constexpr std::int32_t kMaxBlurRadius = 127;

/// Weights of distances 0 .. radius, times 65536; w[0] + 2 (w[1] + ...) = 65536.
struct BlurWeights {
  std::int32_t radius = 0;
  std::uint32_t weight[kMaxBlurRadius + 1] = {65536};
};

TR_HOST_DEVICE inline float draw_sigma(const StepDraws& draws, float low, float high) {
  return uniform_between(draws.block(0).v[0], low, high);
}

TR_HOST_DEVICE inline BlurWeights blur_weights(float sigma, std::int32_t radius) {
  BlurWeights weights;
  weights.radius = radius;
  double total = 1;
  for (std::int32_t k = 1; k <= radius; ++k) {
    const float x = float(k) / sigma;
    total += 2 * double(det::exp(-0.5f * x * x));
  }
  std::uint32_t others = 0;
  for (std::int32_t k = 1; k <= radius; ++k) {
    const float x = float(k) / sigma;
    weights.weight[k] = std::uint32_t(double(det::exp(-0.5f * x * x)) / total * 65536.0 + 0.5);
    others += 2 * weights.weight[k];
  }
  weights.weight[0] = 65536 - others;
  return weights;
}

/// Source index of place `i` of an axis of `side` pixels mirrored at its edge pixels as often as
/// needed.
TR_HOST_DEVICE inline std::int32_t mirrored_index(std::int32_t i, std::int32_t side) {
  if (side == 1) return 0;
  const std::int32_t period = 2 * (side - 1);
  std::int32_t k = i % period;
  k = k < 0 ? k + period : k;
  return k < side ? k : period - k;
}

/// A sum across, to 8 fractional bits; a sum of those down, to a pixel.
TR_HOST_DEVICE inline std::uint32_t blur_round_across(std::uint32_t sum) {
  return (sum + 128u) >> 8;
}
TR_HOST_DEVICE inline std::uint32_t blur_round_down(std::uint32_t sum) {
  return (sum + (1u << 23)) >> 24;
}

}  // namespace tr::pixel
