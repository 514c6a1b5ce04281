// SPDX-License-Identifier: Apache-2.0
#include "data/formats/exif.h"

#include <cstdint>

namespace tr::data {
namespace {

/// Numbers of a TIFF file in its own byte order; 0 behind the end.
class TiffReader {
 public:
  explicit TiffReader(std::span<const std::byte> bytes)
      : bytes_(bytes), big_endian_(bytes.size() > 1 && bytes[0] == std::byte{'M'}) {}

  std::uint32_t u16(std::size_t offset) const { return number(offset, 2); }
  std::uint32_t u32(std::size_t offset) const { return number(offset, 4); }

 private:
  std::uint32_t number(std::size_t offset, std::size_t count) const {
    if (offset > bytes_.size() || bytes_.size() - offset < count) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = offset + (big_endian_ ? i : count - 1 - i);
      value = (value << 8) | std::uint32_t(bytes_[at]);
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  bool big_endian_;
};

}  // namespace

int exif_orientation(std::span<const std::byte> tiff) {
  if (tiff.size() < 8 || tiff[0] != tiff[1]) return 1;
  if (tiff[0] != std::byte{'I'} && tiff[0] != std::byte{'M'}) return 1;
  const TiffReader reader(tiff);
  constexpr std::uint32_t kTiff = 42, kOrientation = 0x0112, kShort = 3;
  if (reader.u16(2) != kTiff) return 1;
  const std::size_t directory = reader.u32(4);
  const std::uint32_t num_entries = reader.u16(directory);
  for (std::uint32_t i = 0; i < num_entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * std::size_t(i);
    if (entry >= tiff.size()) break;
    if (reader.u16(entry) != kOrientation) continue;
    const std::uint32_t value = reader.u16(entry + 8);
    return reader.u16(entry + 2) == kShort && value >= 1 && value <= 8 ? int(value) : 1;
  }
  return 1;
}

}  // namespace tr::data
