// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/pixel/bilinear.h"
#include "core/pixel/uniform.h"

namespace tr::pixel {

struct ScaledSize {
  std::int32_t height = 1, width = 1;
};

/// Size of the scaled image: each side times its own ratio from [min, max], rounded half up, at
/// least 1. Words 0 (width) and 1 (height) of block 0.
TR_HOST_DEVICE inline ScaledSize draw_scaled_size(const StepDraws& draws, int height, int width,
                                                  float min, float max) {
  const Philox4 words = draws.block(0);
  const std::int32_t w = std::int32_t(float(width) * uniform_between(words.v[0], min, max) + 0.5f);
  const std::int32_t h = std::int32_t(float(height) * uniform_between(words.v[1], min, max) + 0.5f);
  return {h < 1 ? 1 : h, w < 1 ? 1 : w};
}

/// One axis of a bilinear scaling from `from` to `to` pixels, without antialiasing, pixel centres
/// at halves (torch.nn.functional.interpolate, align_corners=False), pasted or cut centred into
/// `from` pixels. Coordinates have 16 fractional bits; `from` up to 16384.
struct ScaleAxis {
  std::int32_t from = 1, to = 1;
  std::int32_t step = 65536;  // source pixels a result pixel
  std::int32_t margin = 0;    // first result pixel within the axis; negative: so many are cut off
};

TR_HOST_DEVICE inline ScaleAxis make_scale_axis(std::int32_t from, std::int32_t to) {
  return {from, to, std::int32_t((std::uint32_t(from) << 16) / std::uint32_t(to)), (from - to) / 2};
}

/// Where pixel `i` of the axis comes from: `index` and index + 1 blended by fraction / 256. Edge
/// pixels repeat: the coordinate is cut to [0, from - 1].
struct ScaleTap {
  std::int32_t index = 0, fraction = 0;
};

/// `i` in [margin, margin + to) cut to [0, from).
TR_HOST_DEVICE inline ScaleTap scale_tap(const ScaleAxis& axis, std::int32_t i) {
  const std::int32_t centre = (i - axis.margin) * axis.step + (axis.step >> 1) - 32768;
  const std::int32_t last = (axis.from - 1) << 16;
  const std::int32_t at = centre < 0 ? 0 : (centre > last ? last : centre);
  return {at >> 16, (at >> (16 - kWeightBits)) & 255};
}

}  // namespace tr::pixel
