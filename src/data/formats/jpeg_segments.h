// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tr::data {

/// One marker segment of a JPEG file, without what follows a scan's header.
struct JpegSegment {
  std::uint8_t marker = 0;             // behind 0xff
  std::span<const std::byte> payload;  // behind the length
};

/// Walks over the segments of a JPEG file and the data of its scans. Bounded by the file whatever
/// is in it.
class JpegSegments {
 public:
  explicit JpegSegments(std::span<const std::byte> bytes) : bytes_(bytes) {}
  /// nullopt: the end, or no marker where one has to be.
  std::optional<JpegSegment> next();
  /// Where the last segment ended.
  std::size_t position() const { return position_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 2;  // behind SOI
};

inline constexpr std::uint8_t kJpegSos = 0xda, kJpegEoi = 0xd9, kJpegApp1 = 0xe1;

/// What the header of a JPEG file says beside what libjpeg reads.
struct JpegLayout {
  int orientation = 1;         // of the first EXIF block
  std::size_t first_scan = 0;  // offset of the first scan's data
};
JpegLayout jpeg_layout(std::span<const std::byte> bytes);

/// True if an end marker follows `first_scan`: the file was not cut. Looks from the end.
bool has_jpeg_end(std::span<const std::byte> bytes, std::size_t first_scan);

/// Identifiers of the components that some scan sends from its first coefficient on. For files of
/// several scans; reads all of the file.
std::bitset<256> jpeg_components_sent(std::span<const std::byte> bytes);

}  // namespace tr::data
