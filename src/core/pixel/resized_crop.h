// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/det_math.h"
#include "core/pixel/uniform.h"

namespace tr::pixel {

struct CropRect {
  std::int32_t top = 0, left = 0, height = 1, width = 1;
};

struct CropRange {
  float scale_low = 0, scale_high = 1;  // fractions of the area; logarithms where log_scale is set
  bool log_scale = false;
  float ratio_low = 1, ratio_high = 1;  // width / height
  float log_ratio_low = 0, log_ratio_high = 0;
};

/// The region that is taken where no try fits: the largest centred one of an allowed ratio.
TR_HOST_DEVICE inline CropRect fallback_crop(int height, int width, const CropRange& range) {
  CropRect rect{0, 0, height, width};
  const float ratio = float(width) / float(height);
  if (ratio < range.ratio_low) {
    rect.height = std::int32_t(float(width) / range.ratio_low + 0.5f);
  } else if (ratio > range.ratio_high) {
    rect.width = std::int32_t(float(height) * range.ratio_high + 0.5f);
  }
  if (rect.height < 1) rect.height = 1;
  if (rect.width < 1) rect.width = 1;
  rect.top = (height - rect.height) / 2;
  rect.left = (width - rect.width) / 2;
  return rect;
}

/// The region of torchvision.transforms.RandomResizedCrop: up to ten tries of an area and a ratio;
/// the first that lies within the image is placed uniformly. Block t is try t: area, ratio, top,
/// left.
TR_HOST_DEVICE inline CropRect draw_resized_crop(const StepDraws& draws, int height, int width,
                                                 const CropRange& range) {
  const float image_area = float(height) * float(width);
  for (std::uint32_t attempt = 0; attempt < 10; ++attempt) {
    const Philox4 words = draws.block(attempt);
    const float drawn = uniform_between(words.v[0], range.scale_low, range.scale_high);
    const float area = image_area * (range.log_scale ? det::exp(drawn) : drawn);
    const float ratio =
        det::exp(uniform_between(words.v[1], range.log_ratio_low, range.log_ratio_high));
    const auto w = std::int32_t(std::sqrt(area * ratio) + 0.5f);
    const auto h = std::int32_t(std::sqrt(area / ratio) + 0.5f);
    if (w < 1 || w > width || h < 1 || h > height) continue;
    return {std::int32_t(uniform_below(words.v[2], std::uint32_t(height - h + 1))),
            std::int32_t(uniform_below(words.v[3], std::uint32_t(width - w + 1))), h, w};
  }
  return fallback_crop(height, width, range);
}

/// Offset of the centred window, `surplus` pixels being left over: half of it, halves to even.
TR_HOST_DEVICE inline std::int32_t centred_offset(std::int32_t surplus) {
  const std::int32_t half = surplus / 2;
  return (surplus & 1) != 0 && (half & 1) != 0 ? half + 1 : half;
}

}  // namespace tr::pixel
