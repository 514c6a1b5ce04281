// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace tr::data {

/// Orientation (1..8) that an EXIF block states: a TIFF header, then directory 0, as it lies in
/// JPEG's APP1 after "Exif\0\0" and in PNG's eXIf. 1 if it states none, or nothing valid: metadata
/// is not worth a picture. Source: EXIF 2.32, 4.6.4 A (tag 0x0112).
int exif_orientation(std::span<const std::byte> tiff);

}  // namespace tr::data
