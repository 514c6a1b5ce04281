// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/pixel/color.h"
#include "data/transforms/pixel_step.h"

namespace tr::data {

/// One operation on colours; HUE: factor is the turn.
struct ColorStep {
  pixel::ColorOp op = pixel::ColorOp::BRIGHTNESS;
  std::int32_t factor = pixel::kFactorOne;
};

/// The operations one after the other, each rounded to pixels, in one pass over the image; in two
/// where CONTRAST needs the mean of what comes before it. CONTRAST stands there at most once.
/// Images of one channel know neither saturation nor hue. `dst` is packed and may be `src`.
void apply_colors(const ImageRef& src, std::span<const ColorStep> steps, std::uint8_t* dst);

/// All three channels become the luma.
void apply_luma(const ImageRef& src, std::uint8_t* dst);

/// @throws InvalidArgument  images of neither 1 nor 3 channels.
void check_colors(const std::string& who, ImageShape in);

}  // namespace tr::data
