// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "data/image_decode.h"

namespace tr::data {

/// Decodes pictures of one format, as they are stored: turning them upright is not its affair. Made
/// once, used for many pictures.
class FormatDecoder {
 public:
  explicit FormatDecoder(const DecodeOptions& options) : options_(options) {}
  virtual ~FormatDecoder() = default;

  /// Height and width of the result are those that are stored.
  virtual ImageInfo open(const EncodedImage& image) = 0;
  /// `crop` lies in the stored picture; all of a request refers to it.
  virtual DecodedImage decode(const PixelRect& crop, int target_width, int target_height) = 0;
  virtual std::size_t memory_bytes() const = 0;

  const DecodeOptions& options() const { return options_; }

 private:
  DecodeOptions options_;
};

/// The registration of a format: a row of the table in image_decode.cpp.
struct ImageFormat {
  std::string_view name;
  bool (*matches)(std::span<const std::byte> bytes);  // by the first bytes
  std::unique_ptr<FormatDecoder> (*make_decoder)(const DecodeOptions& options);
};

/// Memory for pixels: grows, never shrinks, does not keep what was in it.
class PixelBuffer {
 public:
  /// At least `bytes` and the slack that Pixels promises.
  std::uint8_t* reserve(std::size_t bytes);
  std::size_t num_bytes() const { return num_bytes_; }

 private:
  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t num_bytes_ = 0;
};

/// Luma of RGB as Pillow computes it for convert("L"): ITU-R 601, 16-bit weights, rounded.
inline std::uint8_t luma_of(int red, int green, int blue) {
  return std::uint8_t((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

/// @throws DataError  the size exceeds options.max_pixels.
void check_size(const EncodedImage& image, std::int64_t width, std::int64_t height,
                const DecodeOptions& options);

}  // namespace tr::data
