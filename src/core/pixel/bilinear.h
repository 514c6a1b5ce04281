// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace tr::pixel {

// Bilinear interpolation in integers: weights have 8 fractional bits, the result is rounded to
// nearest. blend(a, b, c, d) = round(((a (256-fx) + b fx) (256-fy) + (c (256-fx) + d fx) fy) /
// 65536)

constexpr int kWeightBits = 8;

/// Between two horizontal neighbours, times 256: 0 .. 65280.
TR_HOST_DEVICE inline std::int32_t blend_row(std::int32_t left, std::int32_t right,
                                             std::int32_t fx) {
  return (left << kWeightBits) + fx * (right - left);
}

/// Between two results of blend_row(), rounded to a pixel.
TR_HOST_DEVICE inline std::int32_t blend_column(std::int32_t top, std::int32_t bottom,
                                                std::int32_t fy) {
  return ((top << kWeightBits) + fy * (bottom - top) + (1 << (2 * kWeightBits - 1))) >>
         (2 * kWeightBits);
}

/// Four neighbours packed in one word, upper left in the low byte, then upper right, lower left,
/// lower right.
TR_HOST_DEVICE inline std::int32_t blend_quad(std::uint32_t quad, std::int32_t fx,
                                              std::int32_t fy) {
  const std::int32_t top =
      blend_row(std::int32_t(quad & 255u), std::int32_t((quad >> 8) & 255u), fx);
  const std::int32_t bottom =
      blend_row(std::int32_t((quad >> 16) & 255u), std::int32_t(quad >> 24), fx);
  return blend_column(top, bottom, fy);
}

}  // namespace tr::pixel
