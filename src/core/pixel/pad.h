// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace tr::pixel {

/// What lies around the image; numbered as tr::PadMode.
enum class PadRule : std::int32_t { CONSTANT, EDGE, REFLECT, SYMMETRIC };

/// Source index of place `i` of an axis of `side` pixels, i in [-padding, side + padding), where
/// the mirroring rules need padding <= side (REFLECT: < side). -1: outside, for CONSTANT.
TR_HOST_DEVICE inline std::int32_t pad_index(std::int32_t i, std::int32_t side, PadRule rule) {
  if (i >= 0 && i < side) return i;
  if (rule == PadRule::CONSTANT) return -1;
  if (rule == PadRule::EDGE) return i < 0 ? 0 : side - 1;
  const std::int32_t edge = rule == PadRule::REFLECT ? 0 : 1;  // SYMMETRIC repeats the edge pixel
  return i < 0 ? -i - edge : 2 * side - 2 - i + edge;
}

}  // namespace tr::pixel
