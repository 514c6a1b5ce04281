// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/formats/image_format.h"

namespace tr::data {

/// PNG by libpng: every colour type and depth, interlaced too. As Pillow's convert("RGB"): alpha
/// and tRNS are dropped, palettes looked up, 1, 2 and 4 bits stretched to 0..255; of 16 bits the
/// high byte is taken. Gamma and colour profiles are not applied.
bool is_png(std::span<const std::byte> bytes);
std::unique_ptr<FormatDecoder> make_png_decoder(const DecodeOptions& options);

inline constexpr ImageFormat kPngFormat{"PNG", is_png, make_png_decoder};

}  // namespace tr::data
