// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tr::test {

/// How a test's JPEG file is to be made.
struct JpegSpec {
  enum class Color : std::uint8_t { GRAY, YCBCR, RGB, CMYK, YCCK };
  int width = 97, height = 75;
  Color color = Color::YCBCR;
  int h_samp = 2, v_samp = 2;  // of the luma (first) component; the others have 1
  int quality = 90;
  bool progressive = false;
  bool arithmetic = false;
  bool separate_scans = false;  // sequential, one component a scan
  int restart_rows = 0;         // MCU rows between restart markers; 0: none
  int restart_mcus = 0;         // MCUs between restart markers; 0: as restart_rows says
  std::vector<std::byte> app1;  // payload of an APP1 marker; empty: none
  /// Component `channel` at (y, x); default: texture().
  std::function<std::uint8_t(int y, int x, int channel)> pixel;
};

/// Waves and noise: neither flat nor pure noise.
std::uint8_t texture(int y, int x, int channel);

/// The file's bytes.
std::vector<std::byte> make_jpeg(const JpegSpec& spec);

/// Payload of APP1 with an EXIF block that states the orientation, in either byte order.
std::vector<std::byte> exif_app1(int orientation, bool big_endian);

}  // namespace tr::test
