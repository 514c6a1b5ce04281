// SPDX-License-Identifier: Apache-2.0
// JPEG files of every kind, made by the test: parts are those of the whole, small ones are the
// whole shrunk, and cut or damaged files are never pictures.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>

#include "data/formats/jpeg.h"
#include "data/formats/jpeg_segments.h"
#include "data/formats/scan_marks.h"
#include "renaissance/core/error.h"
#include "support/jpeg_writer.h"
#include "support/picture.h"
#include "support/resample.h"
#include "support/throws.h"

namespace tr {
namespace {

using data::DecodeOptions;
using data::DecodeRequest;
using data::ImageDecoder;
using data::PixelRect;
using test::JpegSpec;
using test::make_jpeg;
using test::Picture;
using test::throws;
using Color = test::JpegSpec::Color;

struct Kind {
  const char* name;
  JpegSpec spec;
  double scaled_difference = 3;  // in 1/255, of smaller decodes after the resize
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds{
      {"444", {.h_samp = 1, .v_samp = 1}},
      {"422", {.h_samp = 2, .v_samp = 1}},
      {"420", {}},
      {"440", {.h_samp = 1, .v_samp = 2}},
      // Libjpeg repeats chroma subsampled by four at full size and smooths it in smaller decodes.
      {"411", {.h_samp = 4, .v_samp = 1}, 5},
      {"410", {.h_samp = 4, .v_samp = 2}, 5},
      {"gray", {.color = Color::GRAY, .h_samp = 1, .v_samp = 1}},
      {"gray22", {.color = Color::GRAY}},
      {"rgb", {.color = Color::RGB, .h_samp = 1, .v_samp = 1}},
      {"cmyk", {.color = Color::CMYK, .h_samp = 1, .v_samp = 1}},
      {"ycck420", {.color = Color::YCCK}},
      {"progressive444", {.h_samp = 1, .v_samp = 1, .progressive = true}},
      {"progressive420", {.progressive = true}},
      {"progressive_ycck", {.color = Color::YCCK, .progressive = true}},
      {"arithmetic", {.arithmetic = true}},
      {"separate", {.separate_scans = true}},
      {"restart", {.restart_rows = 1}},
      {"restart_in_rows", {.h_samp = 1, .v_samp = 1, .restart_mcus = 5}},
      {"tiny", {.width = 3, .height = 2}},
      {"column", {.width = 1, .height = 70}},
      {"row", {.width = 90, .height = 1}},
      {"wide", {.width = 301, .height = 40}}};
  return kKinds;
}

Picture decode(const std::vector<std::byte>& bytes, const DecodeRequest& request = {},
               const DecodeOptions& options = {}) {
  ImageDecoder decoder(options);
  decoder.open({bytes});
  return Picture(decoder.decode(request).pixels);
}

/// Random crops, and those that touch the borders.
std::vector<PixelRect> some_crops(int width, int height, unsigned seed, int count) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return int(random() % unsigned(n)); };
  std::vector<PixelRect> crops{{0, 0, width, height},
                               {0, 0, 1, 1},
                               {width - 1, height - 1, 1, 1},
                               {0, height / 2, width, height - height / 2}};
  for (int i = 0; i < count; ++i) {
    const int w = 1 + below(width), h = 1 + below(height);
    crops.push_back({below(width - w + 1), below(height - h + 1), w, h});
  }
  return crops;
}

class JpegKindTest : public testing::TestWithParam<std::size_t> {
 protected:
  const Kind& kind() const { return kinds()[GetParam()]; }
};

TEST_P(JpegKindTest, CropsAreThePixelsOfTheWhole) {
  const std::vector<std::byte> bytes = make_jpeg(kind().spec);
  for (const int channels : {1, 3}) {
    for (const bool fast : {false, true}) {
      const DecodeOptions options{.color_channels = channels, .fast_dct = fast};
      const Picture whole = decode(bytes, {}, options);
      ASSERT_EQ(whole.width, kind().spec.width);
      ASSERT_EQ(whole.height, kind().spec.height);
      ASSERT_EQ(whole.channels, channels);
      ImageDecoder decoder(options);
      for (const PixelRect& crop : some_crops(whole.width, whole.height, 1, 60)) {
        decoder.open({bytes});
        const Picture part(decoder.decode({.crop = crop}).pixels);
        ASSERT_EQ(part, whole.cut(crop))
            << kind().name << (fast ? " fast" : "") << ": " << crop.width << "x" << crop.height
            << " at " << crop.x << ", " << crop.y;
      }
    }
  }
}

TEST_P(JpegKindTest, ScaledCropsAreTheFullOnesShrunk) {
  JpegSpec spec = kind().spec;
  spec.width *= 3, spec.height *= 3;
  spec.pixel = test::smooth_texture;
  const std::vector<std::byte> bytes = make_jpeg(spec);
  const Picture whole = decode(bytes);
  ImageDecoder decoder, reads_all({.decode_crop_only = false});
  for (const PixelRect& crop : some_crops(whole.width, whole.height, 2, 30)) {
    for (const int divisor : {3, 4, 6, 13}) {
      const int w = std::max(1, crop.width / divisor), h = std::max(1, crop.height / divisor);
      decoder.open({bytes});
      const data::DecodedImage small =
          decoder.decode({.crop = crop, .target_width = w, .target_height = h});
      reads_all.open({bytes});
      const data::DecodedImage all = reads_all.decode({crop, w, h});
      ASSERT_EQ(all.scale, small.scale);
      ASSERT_EQ(all.crop_eighths, small.crop_eighths);
      ASSERT_EQ(Picture(all.pixels), Picture(small.pixels))
          << kind().name << ": " << crop.width << "x" << crop.height << " at " << crop.x << ", "
          << crop.y << " to " << w << "x" << h << ", scale " << small.scale;
      const Picture got = test::resample(Picture(small.pixels), small.crop_eighths, w, h);
      const PixelRect eighths{8 * crop.x, 8 * crop.y, 8 * crop.width, 8 * crop.height};
      const Picture want = test::resample(whole, eighths, w, h);
      // Of a few pixels one that lies at the edge of a block weighs too much for the mean.
      const double most = w * h >= 64 ? kind().scaled_difference : 8;
      ASSERT_LE(test::mean_difference(got, want), most)
          << kind().name << ": " << crop.width << "x" << crop.height << " at " << crop.x << ", "
          << crop.y << " to " << w << "x" << h << ", scale " << small.scale;
    }
  }
}

TEST_P(JpegKindTest, CutFilesAreErrors) {
  const std::vector<std::byte> bytes = make_jpeg(kind().spec);
  const Picture whole = decode(bytes);
  const PixelRect corner{0, 0, 1, 1};
  ImageDecoder decoder;
  for (std::size_t length = 0; length + 2 < bytes.size(); length += length < 600 ? 7 : 61) {
    const std::span cut = std::span(bytes).first(length);
    for (const DecodeRequest& request : {DecodeRequest{}, DecodeRequest{.crop = corner}}) {
      const auto call = [&] {
        decoder.open({cut, "cut.jpg"});
        // The last bits of the data may be padding: then all pixels are there.
        const Picture got(decoder.decode(request).pixels);
        if (got == (request.crop ? whole.cut(corner) : whole) && length + 4 >= bytes.size()) {
          throw DataError("cut.jpg: only padding is missing");
        }
      };
      ASSERT_TRUE(throws<DataError>(call, "cut.jpg: "))
          << kind().name << ": " << length << " of " << bytes.size() << " bytes";
    }
  }
}

TEST_P(JpegKindTest, OwnHuffmanDecoderGivesLibjpegsPixels) {
  const JpegSpec& spec = kind().spec;
  const std::vector<std::byte> bytes = make_jpeg(spec);
  ImageDecoder own, libjpeg({.own_huffman = false});
  own.open({bytes});
  EXPECT_EQ(own.decode().own_huffman,
            !spec.progressive && !spec.arithmetic && !spec.separate_scans);
  for (const PixelRect& crop : some_crops(spec.width, spec.height, 3, 30)) {
    own.open({bytes});
    libjpeg.open({bytes});
    const data::DecodedImage want = libjpeg.decode({.crop = crop});
    EXPECT_FALSE(want.own_huffman);
    ASSERT_EQ(Picture(own.decode({.crop = crop}).pixels), Picture(want.pixels)) << kind().name;
  }
}

/// Pixels, warnings and error of a decode, as text where they are no pixels.
std::pair<std::optional<Picture>, std::string> outcome(ImageDecoder& decoder,
                                                       const std::vector<std::byte>& bytes,
                                                       const std::optional<PixelRect>& crop,
                                                       data::ScanMarks* marks = nullptr) {
  try {
    decoder.open({bytes, "odd.jpg", marks});
    const data::DecodedImage image = decoder.decode({.crop = crop});
    return {Picture(image.pixels),
            std::to_string(image.warnings) + " " + std::string(image.first_warning)};
  } catch (const DataError& error) {
    return {std::nullopt, error.what()};
  }
}

TEST_P(JpegKindTest, DamageHasTheSameOutcomeWithOwnHuffmanDecoder) {
  const std::vector<std::byte> good = make_jpeg(kind().spec);
  const std::size_t data = data::jpeg_layout(good).first_scan;
  ImageDecoder own, libjpeg({.own_huffman = false});
  std::mt19937 random(4);
  int errors = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> bytes = good;
    const std::size_t at = data + random() % (bytes.size() - data);
    switch (i % 4) {
      case 0: bytes[at] ^= std::byte(1 << random() % 8); break;
      case 1: bytes[at] = std::byte{0xff}; break;
      case 2: bytes.erase(bytes.begin() + std::ptrdiff_t(at)); break;
      case 3: bytes.insert(bytes.begin() + std::ptrdiff_t(at), std::byte(random() % 256)); break;
    }
    const PixelRect corner{0, 0, (kind().spec.width + 1) / 2, (kind().spec.height + 1) / 2};
    for (const std::optional<PixelRect>& crop : {std::optional<PixelRect>(), {corner}}) {
      const auto want = outcome(libjpeg, bytes, crop), got = outcome(own, bytes, crop);
      ASSERT_EQ(got.second, want.second) << kind().name << ", change " << i << " at " << at;
      ASSERT_EQ(got.first, want.first) << kind().name << ", change " << i << " at " << at;
      errors += !got.first;
    }
  }
  EXPECT_GT(errors, 0);
}

/// Of more rows than there are marks.
JpegSpec tall(JpegSpec spec) {
  spec.height += 8 * 3 * int(data::ScanMarks::kMost);
  return spec;
}

TEST_P(JpegKindTest, MarksOfEarlierDecodesChangeNothing) {
  for (const JpegSpec& spec : {kind().spec, tall(kind().spec)}) {
    const std::vector<std::byte> bytes = make_jpeg(spec);
    const Picture whole = decode(bytes);
    ImageDecoder decoder, fresh;
    data::ScanMarks marks;
    for (const PixelRect& crop : some_crops(spec.width, spec.height, 5, 30)) {
      SCOPED_TRACE(std::string(kind().name) + ": " + std::to_string(crop.width) + "x" +
                   std::to_string(crop.height) + " at " + std::to_string(crop.x) + ", " +
                   std::to_string(crop.y) + " with " + std::to_string(marks.known) + " marks");
      decoder.open({bytes, "tall.jpg", &marks});
      ASSERT_EQ(Picture(decoder.decode({.crop = crop}).pixels), whole.cut(crop));
      const DecodeRequest shrunk{crop, std::max(1, crop.width / 3), std::max(1, crop.height / 3)};
      decoder.open({bytes, "tall.jpg", &marks});
      fresh.open({bytes});
      ASSERT_EQ(Picture(decoder.decode(shrunk).pixels), Picture(fresh.decode(shrunk).pixels));
    }
    const bool takes_marks = !spec.progressive && !spec.arithmetic && !spec.separate_scans &&
                             spec.color != Color::CMYK && spec.color != Color::YCCK;
    EXPECT_EQ(marks.known > 0, takes_marks) << kind().name;
  }
}

TEST_P(JpegKindTest, DamageHasTheSameOutcomeWithMarks) {
  int errors = 0;
  for (const JpegSpec& spec : {kind().spec, tall(kind().spec)}) {
    const std::vector<std::byte> good = make_jpeg(spec);
    const std::size_t data = data::jpeg_layout(good).first_scan;
    ImageDecoder fresh, marked;
    std::mt19937 random(6);
    for (int i = 0; i < 60; ++i) {
      std::vector<std::byte> bytes = good;
      const std::size_t at = data + random() % (bytes.size() - data);
      if (i % 2 == 0) {
        bytes[at] = std::byte(random() % 256);
      } else {
        bytes.erase(bytes.begin() + std::ptrdiff_t(at));
      }
      data::ScanMarks marks;
      for (const PixelRect& crop : some_crops(spec.width, spec.height, 7, 6)) {
        const auto want = outcome(fresh, bytes, crop), got = outcome(marked, bytes, crop, &marks);
        ASSERT_EQ(got.second, want.second) << kind().name << ", change " << i;
        ASSERT_EQ(got.first, want.first) << kind().name << ", change " << i;
        errors += !got.first;
      }
    }
  }
  EXPECT_GT(errors, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, JpegKindTest, testing::Range<std::size_t>(0, kinds().size()),
                         [](const auto& param) { return kinds()[param.param].name; });

TEST(JpegTest, ScaleIsTheSmallestThatKeepsOneAndAHalfTimesTheTarget) {
  const std::vector<std::byte> bytes = make_jpeg({.width = 720, .height = 600});
  struct Row {
    PixelRect crop;
    int width, height, scale;
  };
  for (const Row& row : {Row{{0, 0, 720, 600}, 0, 0, 8}, Row{{0, 0, 720, 600}, 241, 200, 8},
                         Row{{0, 0, 720, 600}, 240, 200, 4}, Row{{0, 0, 720, 600}, 120, 101, 4},
                         Row{{0, 0, 720, 600}, 120, 100, 2}, Row{{0, 0, 720, 600}, 60, 50, 1},
                         Row{{0, 0, 720, 600}, 1, 1, 1}, Row{{100, 100, 480, 480}, 160, 160, 4},
                         Row{{100, 100, 479, 480}, 160, 160, 8}}) {
    ImageDecoder decoder, exact({.dct_scaling = false});
    const DecodeRequest request{row.crop, row.width, row.height};
    decoder.open({bytes});
    const data::DecodedImage image = decoder.decode(request);
    EXPECT_EQ(image.scale, row.scale) << row.width << "x" << row.height;
    EXPECT_GE(image.crop_eighths.x, 0);
    EXPECT_LT(image.crop_eighths.x, 8);
    EXPECT_EQ(image.crop_eighths.width, row.crop.width * row.scale);
    EXPECT_LE(image.crop_eighths.x + image.crop_eighths.width, 8 * image.pixels.width);
    exact.open({bytes});
    EXPECT_EQ(exact.decode(request).scale, 8);
  }
}

TEST(JpegTest, RowsWithMarksAreGoneTo) {
  const JpegSpec spec{.width = 200, .height = 320, .h_samp = 1, .v_samp = 1};
  std::vector<std::byte> bytes = make_jpeg(spec);
  const std::size_t data = data::jpeg_layout(bytes).first_scan;
  const Picture whole = decode(bytes);
  ImageDecoder decoder;
  data::ScanMarks marks;
  decoder.open({bytes, "whole.jpg", &marks});
  decoder.decode();
  EXPECT_EQ(marks.rows_per_mark, 1);
  EXPECT_EQ(marks.known, 40);
  // What lies before the crop's rows, and beside them, is not looked at any more.
  const auto spoil = [&](std::size_t from, std::size_t end) {
    std::fill(bytes.begin() + std::ptrdiff_t(data + from),
              bytes.begin() + std::ptrdiff_t(data + end), std::byte{0x55});
  };
  const auto begin_of = [&](std::size_t row) { return marks.offset_bits[row - 1] >> 3; };
  spoil(0, begin_of(19));
  for (std::size_t row = 20; row < 38; ++row) {
    spoil((begin_of(row) + begin_of(row + 1)) / 2, begin_of(row + 1));
  }
  const PixelRect crop{4, 170, 8, 100};
  decoder.open({bytes, "marked.jpg", &marks});
  EXPECT_EQ(Picture(decoder.decode({.crop = crop}).pixels), whole.cut(crop));
  EXPECT_TRUE(throws<DataError>([&] { decode(bytes, {.crop = crop}); }, "damaged or cut"));
}

TEST(JpegTest, FastDctDiffersALittle) {
  const std::vector<std::byte> bytes = make_jpeg({.pixel = test::smooth_texture});
  const Picture exact = decode(bytes), fast = decode(bytes, {}, {.fast_dct = true});
  EXPECT_NE(exact, fast);
  EXPECT_LE(test::mean_difference(exact, fast), 2);
}

std::size_t find_segment(const std::vector<std::byte>& bytes, std::uint8_t marker,
                         std::size_t from = 0) {
  for (std::size_t i = from; i + 1 < bytes.size(); ++i) {
    if (bytes[i] == std::byte{0xff} && bytes[i + 1] == std::byte{marker}) return i;
  }
  ADD_FAILURE() << "no marker " << int(marker);
  return 0;
}
void erase_segment(std::vector<std::byte>& bytes, std::uint8_t marker) {
  const auto at = bytes.begin() + std::ptrdiff_t(find_segment(bytes, marker));
  bytes.erase(at, at + 2 + ((std::ptrdiff_t(at[2]) << 8) | std::ptrdiff_t(at[3])));
}

TEST(JpegTest, NothingIsKeptOfEarlierPictures) {
  const std::vector<std::byte> good = make_jpeg({});
  std::vector<std::byte> no_tables = good;
  erase_segment(no_tables, 0xdb);
  erase_segment(no_tables, 0xdb);
  ImageDecoder decoder;
  for (int i = 0; i < 2; ++i) {
    decoder.open({good});
    decoder.decode();
    const auto call = [&] {
      decoder.open({no_tables, "no_tables.jpg"});
      decoder.decode();
    };
    EXPECT_TRUE(throws<DataError>(call, "no_tables.jpg: the JPEG data is damaged or cut"));
  }
}

TEST(JpegTest, DamagedDataNamesTheRow) {
  const JpegSpec spec{.width = 64, .height = 256, .restart_rows = 1};
  std::vector<std::byte> bytes = make_jpeg(spec);
  // The eighth restart marker is lost: the rows behind it belong elsewhere.
  const std::size_t at = find_segment(bytes, 0xd7);
  bytes[at] = bytes[at + 1] = std::byte{0};
  EXPECT_TRUE(
      throws<DataError>([&] { decode(bytes); }, "the JPEG data is damaged or cut at row 1"));
  // Above it all is well, and a crop of that part does not look further.
  EXPECT_NO_THROW(decode(bytes, {.crop = PixelRect{0, 0, 64, 100}}));
  EXPECT_TRUE(throws<DataError>(
      [&] {
        decode(bytes, {.crop = PixelRect{0, 0, 64, 100}}, {.decode_crop_only = false});
      },
      "damaged"));
}

TEST(JpegTest, StrayBytesBetweenSegmentsAreAWarning) {
  std::vector<std::byte> bytes = make_jpeg({});
  const Picture want = decode(bytes);
  const auto end = bytes.end() - 2;
  bytes.insert(end, 20, std::byte{0x12});  // more than are read ahead
  ImageDecoder decoder;
  decoder.open({bytes});
  const data::DecodedImage image = decoder.decode();
  EXPECT_EQ(Picture(image.pixels), want);
  EXPECT_EQ(image.warnings, 1);
  EXPECT_NE(image.first_warning.find("extraneous bytes"), std::string_view::npos);
}

TEST(JpegTest, ComponentWithoutAScanIsAnError) {
  for (const bool progressive : {false, true}) {
    std::vector<std::byte> bytes =
        make_jpeg({.progressive = progressive, .separate_scans = !progressive});
    // Whole scans go, the end marker stays.
    std::size_t second =
        find_segment(bytes, data::kJpegSos, find_segment(bytes, data::kJpegSos) + 2);
    if (progressive) second = find_segment(bytes, data::kJpegSos);
    bytes.resize(second);
    if (progressive) {  // one scan of the first component alone
      for (const int b : {0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0, 0x2a}) bytes.push_back(std::byte(b));
      for (int i = 0; i < 200; ++i) bytes.push_back(std::byte{0});
    }
    bytes.push_back(std::byte{0xff});
    bytes.push_back(std::byte{data::kJpegEoi});
    EXPECT_TRUE(throws<DataError>([&] { decode(bytes); }, "there is no scan of component"))
        << (progressive ? "progressive" : "separate scans");
  }
}

TEST(JpegTest, HundredsOfScansAreRefused) {
  std::vector<std::byte> bytes = make_jpeg({.width = 16, .height = 16, .progressive = true});
  bytes.resize(bytes.size() - 2);
  for (int i = 0; i < 200; ++i) {  // refinements of nothing: end of band at once
    for (const int b : {0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0x00, 0x00})
      bytes.push_back(std::byte(b));
  }
  bytes.push_back(std::byte{0xff});
  bytes.push_back(std::byte{data::kJpegEoi});
  EXPECT_THROW(decode(bytes), DataError);
}

TEST(JpegTest, SizesBeyondTheLimitOrTheFileAreRefused) {
  const std::vector<std::byte> bytes = make_jpeg({.width = 200, .height = 100});
  EXPECT_NO_THROW(decode(bytes, {}, {.max_pixels = 20000}));
  EXPECT_TRUE(throws<DataError>([&] { decode(bytes, {}, {.max_pixels = 19999}); },
                                "the header says 200x100 pixels, from 1 to 19999"));
  std::vector<std::byte> large = bytes;
  const std::size_t frame = find_segment(large, 0xc0);
  large[frame + 5] = std::byte{0x27}, large[frame + 7] = std::byte{0x27};  // about 10000x10000
  EXPECT_TRUE(throws<DataError>([&] { decode(large); }, "bytes hold"));
}

TEST(JpegTest, TwoComponentsAreRefused) {
  std::vector<std::byte> bytes = make_jpeg({.h_samp = 1, .v_samp = 1});
  const auto frame = bytes.begin() + std::ptrdiff_t(find_segment(bytes, 0xc0));
  // Length 17 -> 14, three components -> two, the last one goes.
  frame[3] = std::byte{14}, frame[9] = std::byte{2};
  bytes.erase(frame + 16, frame + 19);
  const auto scan = bytes.begin() + std::ptrdiff_t(find_segment(bytes, data::kJpegSos));
  scan[3] = std::byte{10}, scan[4] = std::byte{2};
  bytes.erase(scan + 9, scan + 11);
  EXPECT_TRUE(throws<DataError>([&] { decode(bytes); }, "the JPEG has 2 components"));
}

}  // namespace
}  // namespace tr
