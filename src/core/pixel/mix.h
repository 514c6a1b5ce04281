// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/det_math.h"
#include "core/philox.h"

namespace tr::pixel {

/// Address of what Mixup and CutMix draw for a micro-batch: `place` is that of its first sample in
/// the epoch's order.
TR_HOST_DEVICE inline DrawAddress batch_address(std::uint64_t seed, std::int64_t epoch,
                                                std::int64_t place) {
  return {seed, DrawPurpose::BATCH, std::uint64_t(epoch), std::uint64_t(place)};
}

/// In (0, 1]: its logarithm is finite.
TR_HOST_DEVICE inline float uniform_above_zero(std::uint32_t word) {
  return float((word >> 8) + 1) * 0x1p-24f;
}

/// Logarithm of a number of the distribution Gamma(alpha, 1): rejection of one try a block, from
/// `first` on; words 0, 1 a normal number, 2 whether it is taken, 3 the step from alpha + 1 to
/// alpha below 1. After 64 tries (each is taken with probability 0.95 and more) the mode is taken.
/// Source: Marsaglia, Tsang 2000, "A simple method for generating gamma variables".
TR_HOST_DEVICE inline float draw_log_gamma(const DrawAddress& address, std::uint32_t first,
                                           float alpha) {
  const bool small = alpha < 1;
  const float d = (small ? alpha + 1 : alpha) - 1.0f / 3;
  const float c = 1 / std::sqrt(9 * d);
  const float per_alpha = 1 / alpha;
  for (std::uint32_t attempt = 0; attempt < 64; ++attempt) {
    const Philox4 words = address.block(first + attempt);
    const float normal = std::sqrt(-2 * det::log(uniform_above_zero(words.v[0]))) *
                         det::cos(6.28318530717958647f * uniform01(words.v[1]));
    const float base = 1 + c * normal;
    if (base <= 0) continue;
    const float v = base * base * base, log_v = det::log(v);
    const float bound = 0.5f * normal * normal + d - d * v + d * log_v;
    if (det::log(uniform_above_zero(words.v[2])) > bound) continue;
    const float log_gamma = det::log(d) + log_v;
    return small ? log_gamma + det::log(uniform_above_zero(words.v[3])) * per_alpha : log_gamma;
  }
  return det::log(d);
}

/// A number of the distribution Beta(alpha, alpha), in [0, 1]: blocks 64 .. 191.
TR_HOST_DEVICE inline float draw_beta(const DrawAddress& address, float alpha) {
  const float x = draw_log_gamma(address, 64, alpha), y = draw_log_gamma(address, 128, alpha);
  const float difference = y - x;
  return difference > 80 ? 0.0f : 1 / (1 + det::exp(difference));
}

/// The rectangle of CutMix, cut at the image's edges, and the part of the image that is left.
struct CutRect {
  std::int32_t top = 0, left = 0, bottom = 0, right = 0;
  float kept = 1;
};

/// Of an area of 1 - lambda of the image and its shape, centred uniformly: block 0, words 0 (x) and
/// 1 (y).
TR_HOST_DEVICE inline CutRect draw_cut(const DrawAddress& address, std::int32_t height,
                                       std::int32_t width, float lambda) {
  const Philox4 words = address.block(0);
  const auto x = std::int32_t(uniform_below(words.v[0], std::uint32_t(width)));
  const auto y = std::int32_t(uniform_below(words.v[1], std::uint32_t(height)));
  const float half = 0.5f * std::sqrt(1 - lambda);
  const auto half_width = std::int32_t(half * float(width));
  const auto half_height = std::int32_t(half * float(height));
  CutRect rect;
  rect.left = x - half_width < 0 ? 0 : x - half_width;
  rect.top = y - half_height < 0 ? 0 : y - half_height;
  rect.right = x + half_width > width ? width : x + half_width;
  rect.bottom = y + half_height > height ? height : y + half_height;
  const float area = float(rect.right - rect.left) * float(rect.bottom - rect.top);
  rect.kept = 1 - area / (float(width) * float(height));
  return rect;
}

}  // namespace tr::pixel
