// SPDX-License-Identifier: Apache-2.0
// PNG files of every colour type and depth, made by the test.
#include <gtest/gtest.h>

#include <zlib.h>

#include <cstring>

#include "renaissance/core/error.h"
#include "support/picture.h"
#include "support/png_writer.h"
#include "support/throws.h"

namespace tr {
namespace {

using data::DecodeOptions;
using data::DecodeRequest;
using data::ImageDecoder;
using data::PixelRect;
using test::make_png;
using test::Picture;
using test::PngSpec;
using test::throws;

Picture decode(const std::vector<std::byte>& bytes, const DecodeRequest& request = {},
               const DecodeOptions& options = {}) {
  ImageDecoder decoder(options);
  decoder.open({bytes, "test.png"});
  return Picture(decoder.decode(request).pixels);
}

/// One channel of what the writer stored, as 8 bits: stretched from fewer, the high byte of 16.
int expected_sample(const PngSpec& spec, int y, int x, int channel) {
  const unsigned sample = test::png_sample(y, x, channel) & ((1u << spec.bits) - 1);
  if (spec.bits == 16) return int(sample >> 8);
  return int(sample * 255 / ((1u << spec.bits) - 1));
}
int expected_rgb(const PngSpec& spec, int y, int x, int channel) {
  if (spec.color_type == 3) {
    const unsigned entry = test::png_sample(y, x, 0) & ((1u << spec.bits) - 1);
    return test::png_palette(int(entry), channel);
  }
  return expected_sample(spec, y, x, spec.color_type == 2 || spec.color_type == 6 ? channel : 0);
}
/// As the documentation of the decoder states it.
int expected_gray(const PngSpec& spec, int y, int x) {
  if (spec.color_type == 0 || spec.color_type == 4) return expected_sample(spec, y, x, 0);
  const int r = expected_rgb(spec, y, x, 0), g = expected_rgb(spec, y, x, 1),
            b = expected_rgb(spec, y, x, 2);
  return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
}

std::vector<PngSpec> all_kinds() {
  std::vector<PngSpec> specs;
  struct Row {
    int color_type;
    std::vector<int> bits;
  };
  for (const Row& row : {Row{0, {1, 2, 4, 8, 16}}, Row{2, {8, 16}}, Row{3, {1, 2, 4, 8}},
                         Row{4, {8, 16}}, Row{6, {8, 16}}}) {
    for (const int bits : row.bits) {
      for (const bool interlaced : {false, true}) {
        PngSpec spec{.color_type = row.color_type, .bits = bits, .interlaced = interlaced};
        specs.push_back(spec);
        if (row.color_type >= 4) continue;  // alpha is there already
        spec.transparency = true;
        specs.push_back(spec);
      }
    }
  }
  return specs;
}
std::string name_of(const PngSpec& spec) {
  return "colour type " + std::to_string(spec.color_type) + ", " + std::to_string(spec.bits) +
         " bits" + (spec.interlaced ? ", interlaced" : "") + (spec.transparency ? ", tRNS" : "");
}

TEST(PngTest, EveryKindHasItsPixels) {
  for (const PngSpec& spec : all_kinds()) {
    SCOPED_TRACE(name_of(spec));
    const std::vector<std::byte> bytes = make_png(spec);
    const Picture rgb = decode(bytes), gray = decode(bytes, {}, {.color_channels = 1});
    ASSERT_EQ(rgb.width, spec.width);
    ASSERT_EQ(rgb.height, spec.height);
    ASSERT_EQ(rgb.channels, 3);
    ASSERT_EQ(gray.channels, 1);
    for (int y = 0; y < spec.height; ++y) {
      for (int x = 0; x < spec.width; ++x) {
        for (int c = 0; c < 3; ++c) ASSERT_EQ(rgb.at(y, x, c), expected_rgb(spec, y, x, c));
        ASSERT_EQ(gray.at(y, x), expected_gray(spec, y, x));
      }
    }
  }
}

TEST(PngTest, HeaderTellsTheKind) {
  const std::vector<std::byte> bytes =
      make_png({.width = 5, .height = 9, .color_type = 6, .bits = 16, .interlaced = true});
  const data::ImageInfo info = data::probe_image({bytes});
  EXPECT_EQ(info.format, "PNG");
  EXPECT_EQ(info.width, 5);
  EXPECT_EQ(info.height, 9);
  EXPECT_EQ(info.channels, 4);
  EXPECT_EQ(info.bits, 16);
  EXPECT_TRUE(info.progressive);
}

TEST(PngTest, CropsAreThePixelsOfTheWhole) {
  for (const PngSpec& spec : all_kinds()) {
    SCOPED_TRACE(name_of(spec));
    const std::vector<std::byte> bytes = make_png(spec);
    for (const bool crop_only : {true, false}) {
      const DecodeOptions options{.decode_crop_only = crop_only};
      const Picture whole = decode(bytes, {}, options);
      for (const PixelRect& crop :
           {PixelRect{0, 0, 1, 1}, PixelRect{3, 2, 9, 7}, PixelRect{18, 12, 1, 1},
            PixelRect{0, 6, 19, 7}, PixelRect{5, 0, 14, 13}}) {
        ASSERT_EQ(decode(bytes, {.crop = crop}, options), whole.cut(crop));
      }
    }
  }
}

TEST(PngTest, CutFilesAreErrors) {
  for (const bool interlaced : {false, true}) {
    const std::vector<std::byte> bytes = make_png({.interlaced = interlaced});
    for (std::size_t length = 1; length < bytes.size(); ++length) {
      const std::span cut = std::span(bytes).first(length);
      const auto call = [&] {
        ImageDecoder decoder;
        decoder.open({cut, "cut.png"});
        decoder.decode({.crop = PixelRect{0, 0, 1, 1}});
      };
      ASSERT_TRUE(throws<DataError>(call, "cut.png: ")) << length << " of " << bytes.size();
    }
  }
}

std::size_t find_chunk(const std::vector<std::byte>& bytes, const char* type) {
  for (std::size_t i = 0; i + 4 <= bytes.size(); ++i) {
    if (std::memcmp(bytes.data() + i, type, 4) == 0) return i;
  }
  ADD_FAILURE() << "no chunk " << type;
  return 0;
}

TEST(PngTest, WrongChecksumOfPixelDataIsAnError) {
  std::vector<std::byte> bytes = make_png({});
  const std::size_t end = find_chunk(bytes, "IEND");
  bytes[end - 6] ^= std::byte{1};  // in the checksum of the IDAT before it
  EXPECT_TRUE(throws<DataError>([&] { decode(bytes); }, "the PNG data is damaged or cut at row"));
}

TEST(PngTest, DamagedPixelDataNamesTheRow) {
  std::vector<std::byte> bytes = make_png({.width = 200, .height = 200});
  const std::size_t middle = (find_chunk(bytes, "IDAT") + find_chunk(bytes, "IEND")) / 2;
  for (std::size_t i = 0; i < 64; ++i) bytes[middle + i] ^= std::byte{0x55};
  EXPECT_TRUE(throws<DataError>([&] { decode(bytes); }, " of 200 ("));
}

TEST(PngTest, SizesBeyondTheLimitOrTheFileAreRefused) {
  std::vector<std::byte> bytes = make_png({.width = 20, .height = 10});
  EXPECT_NO_THROW(decode(bytes, {}, {.max_pixels = 200}));
  EXPECT_TRUE(throws<DataError>([&] { decode(bytes, {}, {.max_pixels = 199}); },
                                "the header says 20x10 pixels, from 1 to 199"));
  const std::size_t header = find_chunk(bytes, "IHDR");
  bytes[header + 6] = bytes[header + 10] = std::byte{0x27};  // about 10000x10000
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(bytes.data() + header), 17);
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[header + 17 + i] = std::byte((crc >> (24 - 8 * i)) & 255u);
  }
  EXPECT_TRUE(throws<DataError>([&] { decode(bytes); }, "inflate to"));
}

}  // namespace
}  // namespace tr
