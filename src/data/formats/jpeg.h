// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/formats/image_format.h"

namespace tr::data {

/// JPEG by libjpeg-turbo: baseline, progressive, arithmetic; 8 bits a sample; gray, YCbCr, RGB,
/// CMYK and YCCK. Four components are taken as inverted, as Adobe writes them (and Pillow assumes),
/// and multiplied: R = (255 - C)(255 - K) / 255.
bool is_jpeg(std::span<const std::byte> bytes);
std::unique_ptr<FormatDecoder> make_jpeg_decoder(const DecodeOptions& options);

inline constexpr ImageFormat kJpegFormat{"JPEG", is_jpeg, make_jpeg_decoder};

}  // namespace tr::data
