// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/input_file.h"
#include "data/image_decode.h"

namespace tr::test {

/// Decoded pixels of its own, packed.
struct Picture {
  int height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> bytes;

  Picture() = default;
  explicit Picture(const data::Pixels& pixels)
      : height(pixels.height), width(pixels.width), channels(pixels.channels) {
    const std::size_t row_bytes = std::size_t(width) * std::size_t(channels);
    for (int y = 0; y < height; ++y) {
      const std::uint8_t* row = pixels.data + std::size_t(y) * pixels.row_stride;
      bytes.insert(bytes.end(), row, row + row_bytes);
    }
  }
  int at(int y, int x, int c = 0) const {
    return bytes[(std::size_t(y) * std::size_t(width) + std::size_t(x)) * std::size_t(channels) +
                 std::size_t(c)];
  }
  std::vector<int> pixel(int y, int x) const {
    std::vector<int> values;
    for (int c = 0; c < channels; ++c) values.push_back(at(y, x, c));
    return values;
  }
  Picture cut(const data::PixelRect& r) const {
    Picture part;
    part.height = r.height, part.width = r.width, part.channels = channels;
    for (int y = r.y; y < r.y + r.height; ++y) {
      const auto first =
          bytes.begin() + (std::ptrdiff_t(y) * width + std::ptrdiff_t(r.x)) * channels;
      part.bytes.insert(part.bytes.end(), first, first + std::ptrdiff_t(r.width) * channels);
    }
    return part;
  }
  bool operator==(const Picture&) const = default;
};

/// A file, decoded by a decoder of its own. @throws DataError  see ImageDecoder.
inline Picture decode_file(const std::string& path, const data::DecodeOptions& options = {},
                           const data::DecodeRequest& request = {}) {
  const std::vector<std::byte> bytes = read_bytes(path);
  data::ImageDecoder decoder(options);
  decoder.open({bytes, path});
  return Picture(decoder.decode(request).pixels);
}

}  // namespace tr::test
