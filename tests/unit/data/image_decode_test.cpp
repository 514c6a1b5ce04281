// SPDX-License-Identifier: Apache-2.0
// What holds for pictures of every format: orientation, crops, what is refused, memory.
#include "data/image_decode.h"

#include <gtest/gtest.h>

#include "data/formats/exif.h"
#include "renaissance/core/error.h"
#include "support/allocation_counter.h"
#include "support/jpeg_writer.h"
#include "support/picture.h"
#include "support/png_writer.h"
#include "support/resample.h"
#include "support/throws.h"

namespace tr {
namespace {

using data::DecodeOptions;
using data::DecodeRequest;
using data::ImageDecoder;
using data::PixelRect;
using test::make_jpeg;
using test::make_png;
using test::Picture;
using test::throws;

Picture decode(const std::vector<std::byte>& bytes, const DecodeRequest& request = {},
               const DecodeOptions& options = {}) {
  ImageDecoder decoder(options);
  decoder.open({bytes});
  return Picture(decoder.decode(request).pixels);
}

/// The stored picture as orientation 1..8 wants it seen, from the words of the EXIF standard: where
/// its row 0 and its column 0 are.
Picture turned(const Picture& stored, int orientation) {
  Picture out = stored;
  if (orientation >= 5) std::swap(out.width, out.height);
  for (int r = 0; r < stored.height; ++r) {
    for (int c = 0; c < stored.width; ++c) {
      const int from_bottom = stored.height - 1 - r, from_right = stored.width - 1 - c;
      int y = 0, x = 0;
      switch (orientation) {
        case 1: y = r, x = c; break;                     // row 0 top, column 0 left
        case 2: y = r, x = from_right; break;            // top, right
        case 3: y = from_bottom, x = from_right; break;  // bottom, right
        case 4: y = from_bottom, x = c; break;           // bottom, left
        case 5: y = c, x = r; break;                     // row 0 left, column 0 top
        case 6: y = c, x = from_bottom; break;           // right, top
        case 7: y = from_right, x = from_bottom; break;  // right, bottom
        default: y = from_right, x = r; break;           // left, bottom
      }
      for (int k = 0; k < stored.channels; ++k) {
        out.bytes[std::size_t((y * out.width + x) * out.channels + k)] =
            std::uint8_t(stored.at(r, c, k));
      }
    }
  }
  return out;
}

TEST(ImageOrientationTest, PicturesAreTurnedUpright) {
  const DecodeOptions as_stored{.exif = data::ExifPolicy::IGNORE};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE("orientation " + std::to_string(orientation));
    const bool big_endian = orientation % 2 == 0;
    const std::vector<std::byte> jpeg =
        make_jpeg({.app1 = test::exif_app1(orientation, big_endian)});
    const std::vector<std::byte> png = make_png({.orientation = orientation});
    for (const auto& bytes : {jpeg, png}) {
      const Picture stored = decode(bytes, {}, as_stored);
      const Picture upright = turned(stored, orientation);
      const data::ImageInfo info = data::probe_image({bytes});
      EXPECT_EQ(info.orientation, orientation);
      EXPECT_EQ(info.width, upright.width);
      EXPECT_EQ(info.height, upright.height);
      EXPECT_EQ(decode(bytes), upright);
      const PixelRect crop{3, 2, 9, 6};
      EXPECT_EQ(decode(bytes, {.crop = crop}), upright.cut(crop));
    }
  }
}

TEST(ImageOrientationTest, SmallerPicturesAreTurnedToo) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::vector<std::byte> bytes = make_jpeg({.width = 201,
                                                    .height = 155,
                                                    .app1 = test::exif_app1(orientation, false),
                                                    .pixel = test::smooth_texture});
    const Picture upright = decode(bytes);
    const PixelRect crop{11, 7, 130, 121};
    ImageDecoder decoder;
    decoder.open({bytes});
    const data::DecodedImage small =
        decoder.decode({.crop = crop, .target_width = 40, .target_height = 36});
    ASSERT_EQ(small.scale, 4);
    const Picture got = test::resample(Picture(small.pixels), small.crop_eighths, 40, 36);
    const Picture want = test::resample(upright.cut(crop), {0, 0, 8 * 130, 8 * 121}, 40, 36);
    EXPECT_LE(test::mean_difference(got, want), 1) << "orientation " << orientation;
  }
}

TEST(ExifTest, WhatMakesNoSenseIsUpright) {
  for (const int value : {0, 9, 77, 65535}) {
    const std::vector<std::byte> bytes = make_jpeg({.app1 = test::exif_app1(value, false)});
    EXPECT_EQ(data::probe_image({bytes}).orientation, 1) << value;
  }
  const std::vector<std::byte> app1 = test::exif_app1(6, true);
  const std::span tiff = std::span(app1).subspan(6);
  ASSERT_EQ(data::exif_orientation(tiff), 6);
  // The entry ends with byte 32 of the block; without any of its first 30 there is no orientation.
  for (std::size_t length = 0; length < 30; ++length) {
    EXPECT_EQ(data::exif_orientation(tiff.first(length)), 1) << length;
  }
  std::vector<std::byte> far(tiff.begin(), tiff.end());
  for (std::size_t i = 4; i < 8; ++i) far[i] = std::byte{0xff};  // the directory lies nowhere
  EXPECT_EQ(data::exif_orientation(far), 1);
}

TEST(ImageDecoderTest, CropsMustLieInThePicture) {
  const std::vector<std::byte> bytes = make_png({.width = 20, .height = 10});
  for (const PixelRect& crop :
       {PixelRect{-1, 0, 5, 5}, PixelRect{0, 0, 21, 5}, PixelRect{16, 0, 5, 5},
        PixelRect{0, 6, 5, 5}, PixelRect{0, 0, 0, 5}, PixelRect{5, 5, 1, -1},
        PixelRect{2147483647, 0, 2147483647, 1}}) {
    EXPECT_TRUE(
        throws<InvalidArgument>([&] { decode(bytes, {.crop = crop}); }, "the picture is 20x10"));
  }
}

TEST(ImageDecoderTest, EveryDecodeNeedsAnOpen) {
  const std::vector<std::byte> bytes = make_png({});
  ImageDecoder decoder;
  const auto call = [&] { decoder.decode(); };
  EXPECT_TRUE(throws<InvalidArgument>(call, "must follow an open()"));
  decoder.open({bytes});
  decoder.decode();
  EXPECT_TRUE(throws<InvalidArgument>(call, "must follow an open()"));
  EXPECT_THROW(decoder.open({std::span(bytes).first(20)}), DataError);
  EXPECT_TRUE(throws<InvalidArgument>(call, "must follow an open()"));
}

TEST(ImageDecoderTest, OptionsAreChecked) {
  EXPECT_TRUE(throws<InvalidArgument>([] { ImageDecoder decoder({.color_channels = 2}); },
                                      "color_channels is 2, expected 1 or 3"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { ImageDecoder decoder({.max_pixels = 0}); }, "max_pixels is 0"));
}

TEST(ImageDecoderTest, UnknownFilesAreNamed) {
  const auto message_of = [](std::string_view text) {
    const std::span bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
    try {
      ImageDecoder().open({bytes, "x.jpg"});
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message_of("GIF89a..."), "x.jpg: the file is a GIF picture, neither JPEG nor PNG");
  EXPECT_EQ(message_of("PK\x03\x04"), "x.jpg: the file is a zip archive, neither JPEG nor PNG");
  EXPECT_EQ(message_of("\x01\x02z"),
            "x.jpg: the file is something else (it starts with 01 02 7a), neither JPEG nor PNG");
}

TEST(ImageDecoderTest, BuffersStayAndNothingElseIsAllocated) {
  const std::vector<std::byte> jpeg = make_jpeg({.app1 = test::exif_app1(6, false)});
  const std::vector<std::byte> cmyk = make_jpeg({.color = test::JpegSpec::Color::CMYK});
  const std::vector<std::byte> png = make_png({}), interlaced = make_png({.interlaced = true});
  ImageDecoder decoder;
  std::int64_t memory = 0;
  for (int round = 0; round < 3; ++round) {
    const test::AllocationCounter counter;
    for (const auto* bytes : {&jpeg, &cmyk, &png, &interlaced}) {
      decoder.open({*bytes});
      decoder.decode();
      decoder.open({*bytes});
      decoder.decode({.crop = PixelRect{2, 3, 9, 6}, .target_width = 3, .target_height = 2});
    }
    if (round > 0) {
      EXPECT_EQ(counter.count(), 0);
      EXPECT_EQ(decoder.memory_bytes(), memory);
    } else {
      EXPECT_GT(counter.count(), 0);  // the counter counts
    }
    memory = decoder.memory_bytes();
  }
  EXPECT_GE(memory, 97 * 75 * 3);
}

}  // namespace
}  // namespace tr
