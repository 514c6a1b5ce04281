// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/det_math.h"
#include "core/host_device.h"
#include "core/pixel/uniform.h"

namespace tr::pixel {

struct EraseRect {
  std::int32_t top = 0, left = 0, height = 0, width = 0;  // height 0: nothing is erased
};

TR_HOST_DEVICE inline bool is_erased(const EraseRect& rect, std::int32_t y, std::int32_t x) {
  return y >= rect.top && y < rect.top + rect.height && x >= rect.left &&
         x < rect.left + rect.width;
}

struct EraseRange {
  float p = 0;
  float scale_low = 0, scale_high = 0;
  float log_ratio_low = 0, log_ratio_high = 0;
};

/// Rounds a side to the nearest integer, halves up.
TR_HOST_DEVICE inline std::int32_t rounded_side(float x) { return std::int32_t(x + 0.5f); }

/// The rectangle of torchvision.transforms.RandomErasing: with probability p, up to ten tries of an
/// area and an aspect ratio (height / width); the first that is smaller than the image on both
/// sides is placed uniformly. Block 0, word 0 decides; block 1 + t, words 0..3, is try t: area,
/// ratio, top, left.
TR_HOST_DEVICE inline EraseRect draw_erase(const StepDraws& draws, int height, int width,
                                           const EraseRange& range) {
  if (!(uniform01(draws.block(0).v[0]) < range.p)) return {};
  const float image_area = float(height) * float(width);
  for (std::uint32_t attempt = 0; attempt < 10; ++attempt) {
    const Philox4 words = draws.block(1 + attempt);
    const float area = image_area * uniform_between(words.v[0], range.scale_low, range.scale_high);
    const float ratio =
        det::exp(uniform_between(words.v[1], range.log_ratio_low, range.log_ratio_high));
    const std::int32_t h = rounded_side(std::sqrt(area * ratio));
    const std::int32_t w = rounded_side(std::sqrt(area / ratio));
    if (h >= height || w >= width || h < 1 || w < 1) continue;
    return {std::int32_t(uniform_below(words.v[2], std::uint32_t(height - h + 1))),
            std::int32_t(uniform_below(words.v[3], std::uint32_t(width - w + 1))), h, w};
  }
  return {};
}

}  // namespace tr::pixel
