// SPDX-License-Identifier: Apache-2.0
#include "data/formats/jpeg_segments.h"

#include <cstring>

#include "data/formats/exif.h"

namespace tr::data {
namespace {

constexpr std::byte kPrefix{0xff};

bool has_no_payload(std::uint8_t marker) {  // TEM, RST0..7, SOI, EOI
  return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd9);
}
bool is_restart(std::uint8_t marker) { return marker >= 0xd0 && marker <= 0xd7; }

}  // namespace

std::optional<JpegSegment> JpegSegments::next() {
  // Before a marker lies nothing, fill bytes, or the data of a scan, in which 0xff is followed by 0
  // or a restart marker.
  std::size_t at = position_;
  std::uint8_t marker = 0;
  for (;; ++at) {
    if (at + 1 >= bytes_.size()) return std::nullopt;
    const void* found = std::memchr(bytes_.data() + at, 0xff, bytes_.size() - 1 - at);
    if (found == nullptr) return std::nullopt;
    at = std::size_t(static_cast<const std::byte*>(found) - bytes_.data());
    marker = std::uint8_t(bytes_[at + 1]);
    if (marker != 0 && marker != 0xff && !is_restart(marker)) break;
  }
  at += 2;
  position_ = at;
  if (has_no_payload(marker)) return JpegSegment{marker, {}};
  if (bytes_.size() - at < 2) return std::nullopt;
  const std::size_t length = (std::size_t(bytes_[at]) << 8) | std::size_t(bytes_[at + 1]);
  if (length < 2 || bytes_.size() - at < length) return std::nullopt;
  position_ = at + length;
  return JpegSegment{marker, bytes_.subspan(at + 2, length - 2)};
}

JpegLayout jpeg_layout(std::span<const std::byte> bytes) {
  constexpr char kExif[] = {'E', 'x', 'i', 'f', '\0', '\0'};
  JpegLayout layout;
  bool has_exif = false;
  JpegSegments segments(bytes);
  while (const auto segment = segments.next()) {
    if (segment->marker == kJpegSos) {
      layout.first_scan = segments.position();
      return layout;
    }
    const auto payload = segment->payload;
    if (segment->marker != kJpegApp1 || has_exif || payload.size() < sizeof(kExif) ||
        std::memcmp(payload.data(), kExif, sizeof(kExif)) != 0) {
      continue;
    }
    has_exif = true;
    layout.orientation = exif_orientation(payload.subspan(sizeof(kExif)));
  }
  layout.first_scan = bytes.size();
  return layout;
}

bool has_jpeg_end(std::span<const std::byte> bytes, std::size_t first_scan) {
  for (std::size_t at = bytes.size(); at >= first_scan + 2; --at) {
    if (bytes[at - 2] == kPrefix && bytes[at - 1] == std::byte{kJpegEoi}) return true;
  }
  return false;
}

std::bitset<256> jpeg_components_sent(std::span<const std::byte> bytes) {
  std::bitset<256> sent;
  JpegSegments segments(bytes);
  while (const auto segment = segments.next()) {
    if (segment->marker == kJpegEoi) break;
    if (segment->marker != kJpegSos || segment->payload.empty()) continue;
    // Count, then (component, tables) each, then the first and last coefficient.
    const auto payload = segment->payload;
    const std::size_t count = std::size_t(payload[0]);
    if (payload.size() < 1 + 2 * count + 3 || payload[1 + 2 * count] != std::byte{0}) continue;
    for (std::size_t i = 0; i < count; ++i) sent.set(std::size_t(payload[1 + 2 * i]));
  }
  return sent;
}

}  // namespace tr::data
