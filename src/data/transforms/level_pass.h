// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "data/transforms/pixel_step.h"

namespace tr::data {

/// Least and largest value of a channel.
struct LevelBounds {
  std::uint8_t least = 255, largest = 0;
};
/// Of every channel of the image.
void find_bounds(const ImageRef& src, std::span<LevelBounds> bounds);

/// Replaces every value by its entry in the table of its channel, tables [channels][256].
void apply_tables(const ImageRef& src, const std::uint8_t* tables, std::uint8_t* dst);

/// Stretches every channel to 0..255. Scratch: 256 bytes a channel.
void stretch_levels(const ImageRef& src, std::uint8_t* dst, std::byte* scratch);

}  // namespace tr::data
