// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "data/formats/scan_marks.h"
#include "data/image_decode.h"
#include "renaissance/core/error.h"

namespace tr::fuzz {

/// Decodes inputs that begin with `magic`. Decoders live on from input to input, as a worker's do.
class PictureFuzz {
 public:
  explicit PictureFuzz(std::vector<std::uint8_t> magic) : magic_(std::move(magic)) {}

  int run(const std::uint8_t* data, std::size_t size) {
    if (size < magic_.size() || std::memcmp(data, magic_.data(), magic_.size()) != 0) return -1;
    const data::EncodedImage image{{reinterpret_cast<const std::byte*>(data), size}, "input"};
    try {
      const data::ImageInfo info = whole_.open(image);
      const data::Pixels full = whole_.decode().pixels;
      if (full.height != info.height || full.width != info.width) std::abort();
      sum(full);
      plain_.open(image);  // libjpeg alone
      expect_equal(plain_.decode().pixels, full, {0, 0, info.width, info.height});
      // A part that depends on the input's last bytes.
      const int x = data[size - 1] % info.width, y = data[size / 2] % info.height;
      const data::PixelRect crop{x, y, (info.width - x + 1) / 2, (info.height - y + 1) / 2};
      data::ScanMarks marks;
      for (int turn = 0; turn < 3; ++turn) {  // without marks, finding them, using them
        part_.open({image.bytes, image.who, turn == 0 ? nullptr : &marks});
        const data::DecodedImage part = part_.decode({.crop = crop});
        if (part.warnings == 0) expect_equal(full, part.pixels, crop);
      }
      const data::DecodeRequest shrunk{crop, crop.width / 4, crop.height / 4};
      small_.open(image);
      const data::DecodedImage small = small_.decode(shrunk);
      const data::PixelRect& inner = small.crop_eighths;
      if (inner.x < 0 || inner.y < 0 || inner.x + inner.width > 8 * small.pixels.width ||
          inner.y + inner.height > 8 * small.pixels.height) {
        std::abort();
      }
      small_of_all_.open(image);
      const data::DecodedImage all = small_of_all_.decode(shrunk);
      if (small.warnings == 0) {
        expect_equal(all.pixels, small.pixels, {0, 0, small.pixels.width, small.pixels.height});
      }
      sum(small.pixels);
    } catch (const DataError&) {
      return 0;  // refused, as it should be
    }
    return 0;
  }

 private:
  /// Reads every pixel.
  void sum(const data::Pixels& pixels) {
    for (int y = 0; y < pixels.height; ++y) {
      const std::uint8_t* row = pixels.data + std::size_t(y) * pixels.row_stride;
      for (int i = 0; i < pixels.width * pixels.channels; ++i) sum_ = sum_ + row[i];
    }
  }
  static void expect_equal(const data::Pixels& full, const data::Pixels& part,
                           const data::PixelRect& crop) {
    const std::size_t channels = std::size_t(full.channels);
    for (int y = 0; y < crop.height; ++y) {
      const std::uint8_t* want =
          full.data + std::size_t(crop.y + y) * full.row_stride + std::size_t(crop.x) * channels;
      const std::uint8_t* got = part.data + std::size_t(y) * part.row_stride;
      if (std::memcmp(got, want, std::size_t(crop.width) * channels) != 0) std::abort();
    }
  }

  std::vector<std::uint8_t> magic_;
  // The limit keeps an input's time in bounds.
  static constexpr data::DecodeOptions kOptions{.max_pixels = 1 << 18};
  static constexpr data::DecodeOptions kSmall{
      .color_channels = 1, .fast_dct = true, .max_pixels = 1 << 18};
  static constexpr data::DecodeOptions kSmallOfAll{
      .color_channels = 1, .decode_crop_only = false, .fast_dct = true, .max_pixels = 1 << 18};
  static constexpr data::DecodeOptions kPlain{.own_huffman = false, .max_pixels = 1 << 18};
  data::ImageDecoder plain_{kPlain}, whole_{kOptions}, part_{kOptions}, small_{kSmall},
      small_of_all_{kSmallOfAll};
  volatile std::uint64_t sum_ = 0;
};

}  // namespace tr::fuzz
