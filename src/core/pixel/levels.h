// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace tr::pixel {

// Functions from a pixel's value to a pixel's value, as torchvision has them for UINT8 tensors.

/// Stretches [least, largest] to 0..255; the float operations of torchvision, rounded down.
TR_HOST_DEVICE inline std::int32_t stretched(std::int32_t x, std::int32_t least,
                                             std::int32_t largest) {
  if (least == largest) return x;
  const float step = float(largest - least) * (1.0f / 255.0f);
  const float y = float(x - least) / step;
  return y < 0 ? 0 : (y > 255 ? 255 : std::int32_t(y));
}

/// Keeps the `bits` highest bits; 8 keeps all.
TR_HOST_DEVICE inline std::int32_t posterized(std::int32_t x, std::int32_t bits) {
  return x & (256 - (1 << (8 - bits)));
}

/// Inverts what is not below the threshold.
TR_HOST_DEVICE inline std::int32_t solarized(std::int32_t x, float threshold) {
  return float(x) >= threshold ? 255 - x : x;
}

/// What equalising the histogram makes of a value: `below` values are smaller than it, `step` is
/// (number of values that are not the largest) / 255. step 0: nothing changes.
TR_HOST_DEVICE inline std::int32_t equalized(std::int32_t x, std::int64_t below,
                                             std::int64_t step) {
  if (step == 0) return x;
  const std::int64_t y = (below + step / 2) / step;
  return y > 255 ? 255 : std::int32_t(y);
}

/// Mean of a pixel (5 times) and its eight neighbours, `sum` being their weighted sum: the smoothed
/// image of sharpness.
TR_HOST_DEVICE inline std::int32_t smoothed(std::int32_t sum) { return (2 * sum + 13) / 26; }

}  // namespace tr::pixel
