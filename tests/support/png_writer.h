// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tr::test {

/// How a test's PNG file is to be made. Samples are sample(y, x, channel) & (2^bits - 1).
struct PngSpec {
  int width = 19, height = 13;
  int color_type = 2;  // 0 gray, 2 RGB, 3 palette, 4 gray with alpha, 6 RGB with alpha
  int bits = 8;        // of a sample: 1, 2, 4, 8, 16
  bool interlaced = false;
  bool transparency = false;  // a tRNS chunk
  int orientation = 0;        // of an eXIf chunk; 0: none
};

/// What the writer stores, 16 bits.
unsigned png_sample(int y, int x, int channel);
/// Entry of the palette that the writer stores.
std::uint8_t png_palette(int entry, int channel);

std::vector<std::byte> make_png(const PngSpec& spec);

}  // namespace tr::test
