// SPDX-License-Identifier: Apache-2.0
// Every file of img/ has its stated outcome as 3-channel 8-bit RGB. Tolerances: exact for PNG, 2 a
// channel for JPEG.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "data/check.h"
#include "data/picture_stage.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/log_capture.h"
#include "support/picture.h"
#include "support/temp_folder.h"
#include "support/throws.h"

namespace tr {
namespace {

using data::DecodeOptions;
using test::decode_file;
using test::Picture;
using test::throws;
using Rgb = std::vector<int>;

std::string case_path(const std::string& name) {
  return std::string(TR_CASES_FOLDER "/img/") + name;
}
Picture decode_case(const std::string& name, const DecodeOptions& options = {}) {
  return decode_file(case_path(name), options);
}

bool is_near(const Rgb& got, const Rgb& want, int tolerance) {
  if (got.size() != want.size()) return false;
  for (std::size_t c = 0; c < got.size(); ++c) {
    if (std::abs(got[c] - want[c]) > tolerance) return false;
  }
  return true;
}
void expect_pixel(const Picture& picture, int y, int x, const Rgb& want, int tolerance) {
  EXPECT_TRUE(is_near(picture.pixel(y, x), want, tolerance))
      << "row " << y << ", column " << x << ": " << testing::PrintToString(picture.pixel(y, x))
      << ", expected " << testing::PrintToString(want);
}
void expect_rows(const Picture& picture, const std::vector<std::vector<Rgb>>& rows,
                 int tolerance = 0) {
  ASSERT_EQ(picture.height, int(rows.size()));
  ASSERT_EQ(picture.width, int(rows[0].size()));
  ASSERT_EQ(picture.bytes.size(), rows.size() * rows[0].size() * 3);
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      expect_pixel(picture, y, x, rows[std::size_t(y)][std::size_t(x)], tolerance);
    }
  }
}

TEST(JpegCasesTest, CmykIsInvertedAndMultiplied) {
  const Picture p = decode_case("cmyk_adobe.jpg");
  ASSERT_EQ(p.width, 64);
  ASSERT_EQ(p.height, 64);
  expect_pixel(p, 16, 16, {255, 255, 255}, 2);
  expect_pixel(p, 16, 48, {0, 255, 255}, 2);
  expect_pixel(p, 48, 16, {191, 95, 0}, 2);
  expect_pixel(p, 48, 48, {46, 38, 29}, 2);
}

TEST(JpegCasesTest, GrayHasThreeEqualChannels) {
  const Picture p = decode_case("gray.jpg");
  ASSERT_EQ(p.channels, 3);
  ASSERT_EQ(p.width, 64);
  const int bands[] = {0, 60, 200, 255};
  for (int b = 0; b < 4; ++b) {
    for (int x = 16 * b; x < 16 * b + 16; ++x) {
      expect_pixel(p, 7, x, {bands[b], bands[b], bands[b]}, 2);
    }
  }
  EXPECT_EQ(decode_case("gray.jpg", {.color_channels = 1}).channels, 1);
}

TEST(JpegCasesTest, ExifOrientationIsAppliedOrIgnored) {
  const Rgb red{255, 0, 0}, green{0, 255, 0}, blue{0, 0, 255}, white{255, 255, 255};
  const Picture upright = decode_case("exif_orientation6.jpg");
  ASSERT_EQ(upright.width, 32);
  ASSERT_EQ(upright.height, 64);
  expect_pixel(upright, 16, 8, blue, 2);
  expect_pixel(upright, 16, 24, red, 2);
  expect_pixel(upright, 48, 8, white, 2);
  expect_pixel(upright, 48, 24, green, 2);
  const Picture stored = decode_case("exif_orientation6.jpg", {.exif = data::ExifPolicy::IGNORE});
  ASSERT_EQ(stored.width, 64);
  ASSERT_EQ(stored.height, 32);
  expect_pixel(stored, 8, 16, red, 2);
  expect_pixel(stored, 8, 48, green, 2);
  expect_pixel(stored, 24, 16, blue, 2);
  expect_pixel(stored, 24, 48, white, 2);
}

TEST(JpegCasesTest, WholePictureDecodesWithoutAWarning) {
  const std::string path = case_path("whole.jpg");
  const std::vector<std::byte> bytes = read_bytes(path);
  data::ImageDecoder decoder;
  const data::ImageInfo& info = decoder.open({bytes, path});
  EXPECT_EQ(info.format, "JPEG");
  EXPECT_EQ(info.width, 96);
  EXPECT_EQ(info.height, 96);
  EXPECT_EQ(info.channels, 3);
  EXPECT_FALSE(info.progressive);
  const data::DecodedImage image = decoder.decode();
  EXPECT_EQ(image.warnings, 0) << image.first_warning;
  const Picture p(image.pixels);
  const double want[] = {127.58, 133.89, 127.47};
  for (int c = 0; c < 3; ++c) {
    double sum = 0;
    for (int y = 0; y < 96; ++y) {
      for (int x = 0; x < 96; ++x) sum += p.at(y, x, c);
    }
    EXPECT_NEAR(sum / (96 * 96), want[c], 0.5);
  }
}

TEST(JpegCasesTest, JunkBehindTheEndChangesNothing) {
  EXPECT_EQ(decode_case("trailing_junk.jpg"), decode_case("whole.jpg"));
}

TEST(JpegCasesTest, MissingEndMarkerIsAWarning) {
  const std::string path = case_path("no_eoi.jpg");
  const std::vector<std::byte> bytes = read_bytes(path);
  data::ImageDecoder decoder;
  decoder.open({bytes, path});
  const data::DecodedImage image = decoder.decode();
  EXPECT_EQ(image.warnings, 1);
  EXPECT_EQ(image.first_warning, "the end marker is missing");
  EXPECT_EQ(Picture(image.pixels), decode_case("whole.jpg"));
}

TEST(JpegCasesTest, BaselineAndProgressiveAreEqual) {
  EXPECT_EQ(decode_case("baseline.jpg"), decode_case("progressive.jpg"));
  EXPECT_TRUE(data::probe_image({read_bytes(case_path("progressive.jpg"))}).progressive);
}

TEST(JpegCasesTest, OddSizesHaveAllTheirPixels) {
  const Picture got = decode_case("odd_420_17x13.jpg"), want = decode_case("odd_420_17x13.ref.png");
  ASSERT_EQ(got.width, 17);
  ASSERT_EQ(got.height, 13);
  ASSERT_EQ(got.bytes.size(), want.bytes.size());
  double sum = 0;
  for (std::size_t i = 0; i < got.bytes.size(); ++i) sum += std::abs(got.bytes[i] - want.bytes[i]);
  EXPECT_LT(sum / double(got.bytes.size()), 1.0);
}

TEST(JpegCasesTest, OnePixel) { expect_rows(decode_case("one_pixel.jpg"), {{{128, 128, 128}}}, 2); }

TEST(PngCasesTest, SixteenBitsBecomeEight) {
  const auto gray = [](int v) { return Rgb{v, v, v}; };
  expect_rows(decode_case("gray16.png"),
              {{gray(0), gray(0), gray(0), gray(0)},
               {gray(1), gray(1), gray(1), gray(2)},
               {gray(18), gray(127), gray(128), gray(170)},
               {gray(254), gray(254), gray(255), gray(255)}},
              1);
  expect_rows(decode_case("rgb16.png"), {{{18, 128, 255}, {1, 1, 1}, {254, 127, 0}}}, 1);
}

TEST(PngCasesTest, PalettesAreLookedUpAndTransparencyDropped) {
  const Rgb red{255, 0, 0}, green{0, 255, 0}, blue{0, 0, 255}, dark{10, 20, 30};
  expect_rows(decode_case("palette_trns.png"), {{red, green, blue, dark, red},
                                                {dark, blue, green, red, dark},
                                                {red, red, dark, dark, green}});
  const Rgb zero{12, 34, 56}, one{200, 150, 100};
  expect_rows(decode_case("palette_1bit.png"),
              {{one, zero, one, one, zero, zero, one, one, one},
               {zero, one, zero, zero, one, one, zero, zero, zero}});
}

TEST(PngCasesTest, AlphaIsDropped) {
  expect_rows(decode_case("rgba.png"), {{{200, 100, 50}, {200, 100, 50}, {1, 2, 3}}});
  expect_rows(decode_case("gray_alpha.png"), {{{100, 100, 100}, {100, 100, 100}, {7, 7, 7}}});
}

TEST(PngCasesTest, UnusualSizes) {
  expect_rows(decode_case("one_pixel.png"), {{{11, 22, 33}}});
  const Picture thin = decode_case("thin_1x1000.png");
  ASSERT_EQ(thin.width, 1);
  ASSERT_EQ(thin.height, 1000);
  for (int y = 0; y < 1000; ++y) ASSERT_EQ(thin.pixel(y, 0), (Rgb{77, 77, 77}));
  const Picture wide = decode_case("wide_1000x10.png");
  ASSERT_EQ(wide.width, 1000);
  ASSERT_EQ(wide.height, 10);
  for (int x = 0; x < 1000; ++x) ASSERT_EQ(wide.pixel(9, x), Rgb(3, x % 256));
}

/// A picture as the last pass gets it, and what of it was wanted.
struct Way {
  Picture picture;
  std::optional<data::SourceCrop> crop;
};
Way way_of(const std::string& name, std::vector<Transform> steps) {
  const std::string path = case_path(name);
  const data::PixelChain chain({.transforms = std::move(steps)}, {0, 0, 3}, DType::FP32);
  const DrawAddress address = pixel::augment_address(1, 0, 0, 0);
  const std::vector<std::byte> bytes = read_bytes(path);
  const data::ImageInfo info = data::probe_image({bytes, path});
  data::PictureStage stage({});
  const data::ImageRef image = stage.run_pixels(chain, {bytes, path}, address);
  const data::Pixels pixels{const_cast<std::uint8_t*>(image.pixels), image.shape.height,
                            image.shape.width, image.shape.channels, image.stride};
  return {Picture(pixels), chain.first_crop(address, info.height, info.width)};
}
void expect_constant(const Picture& picture, int side, const Rgb& want) {
  expect_rows(picture, std::vector(std::size_t(side), std::vector<Rgb>(std::size_t(side), want)));
}

TEST(SizeCasesTest, OnePixelIsConstantAtAnySize) {
  for (const auto& resize : {Resize(31), Resize(64, ResizeMode::SQUARE),
                             Resize(9, ResizeMode::STRETCH, Interpolation::BICUBIC),
                             Resize(17, ResizeMode::SHORT_SIDE, Interpolation::BILINEAR, false)}) {
    expect_constant(way_of("one_pixel.png", {resize, CenterCrop(9)}).picture, 9, {11, 22, 33});
  }
  expect_constant(way_of("one_pixel.png", {RandomResizedCrop(14)}).picture, 14, {11, 22, 33});
}

TEST(SizeCasesTest, ThinAndWidePicturesFallBackToTheirCentre) {
  for (const Transform& step :
       {Transform(RandomResizedCrop(8)), Transform(FastRandomResizedCrop(8))}) {
    const Way thin = way_of("thin_1x1000.png", {step});
    EXPECT_EQ(*thin.crop, (data::SourceCrop{499, 0, 1, 1, 8, 8, 1000, 1}));
    expect_constant(thin.picture, 8, {77, 77, 77});
    const Way wide = way_of("wide_1000x10.png", {step});
    EXPECT_EQ(*wide.crop, (data::SourceCrop{0, 493, 10, 13, 8, 8, 10, 1000}));
  }
}

TEST(SizeCasesTest, AResizeThatGivesAGiantIsRefusedByName) {
  const auto call = [] { way_of("thin_1x1000.png", {Resize(256), CenterCrop(224)}); };
  EXPECT_TRUE(throws<DataError>(call, "an image of 1000x1 would become 256000x256"));
  EXPECT_TRUE(throws<DataError>(call, "thin_1x1000.png"));
}

TEST(ContentCasesTest, FormatIsToldByContent) {
  for (const auto& [name, tolerance] : {std::pair{"png_inside.JPEG", 0}, {"jpeg_inside.png", 2}}) {
    SCOPED_TRACE(name);
    const Picture p = decode_case(name);
    ASSERT_EQ(p.width, 16);
    ASSERT_EQ(p.height, 8);
    for (int x = 0; x < 16; ++x) {
      expect_pixel(p, 4, x, x < 8 ? Rgb{9, 99, 199} : Rgb{50, 60, 70}, tolerance);
    }
  }
}

struct BadPicture {
  const char* name;
  const char* words;  // in the message, beside the path
};
class BadPictureTest : public testing::TestWithParam<BadPicture> {};

TEST_P(BadPictureTest, IsAnErrorThatNamesTheFileAndTheFault) {
  const auto& [name, words] = GetParam();
  const auto call = [name = name] { decode_case(name); };
  EXPECT_TRUE(throws<DataError>(call, words));
  EXPECT_TRUE(throws<DataError>(call, case_path(name)));
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadPictureTest,
    testing::Values(
        BadPicture{"truncated_half.jpg", "the JPEG data is damaged or cut at row 32 of 96"},
        BadPicture{"truncated_header.jpg", "the JPEG header is damaged or cut"},
        BadPicture{"zero_bytes.jpg", "the file is empty"},
        BadPicture{"html_page.jpg", "the file is a text (HTML, XML or SVG), neither JPEG nor PNG"},
        BadPicture{"bmp_inside.jpg", "the file is a BMP picture, neither JPEG nor PNG"},
        BadPicture{"gzip_inside.JPEG", "the file is a gzip file, neither JPEG nor PNG"},
        BadPicture{"huge_dims.jpg", "the header says 65500x65500 pixels"},
        BadPicture{"huge_dims.png", "the header says 100000x100000 pixels"},
        BadPicture{"precision12.jpg", "Unsupported JPEG data precision 12"}));

// As one class of a set: what cannot be read is a fault with the file's name, all else a sample.
TEST(AllCasesTest, EveryFileIsASampleOrAFaultWithItsName) {
  namespace fs = std::filesystem;
  const test::LogCapture log;
  const test::TempFolder folder;
  fs::create_directories(folder.path("a"));
  std::int64_t files = 0;
  for (const auto& entry : fs::directory_iterator(TR_CASES_FOLDER "/img")) {
    if (entry.path().extension() == ".py") continue;
    fs::copy_file(entry.path(), fs::path(folder.path("a")) / entry.path().filename());
    ++files;
  }
  const DatasetPair pair = open_dataset("folder", folder.path());
  EXPECT_EQ(pair.train->num_samples(), files);
  const data::SplitReport report = data::report_split(*pair.train);
  const char* const kBad[] = {"bmp_inside.jpg",     "gzip_inside.JPEG",     "html_page.jpg",
                              "huge_dims.jpg",      "huge_dims.png",        "precision12.jpg",
                              "truncated_half.jpg", "truncated_header.jpg", "zero_bytes.jpg"};
  ASSERT_EQ(report.faults.size(), std::size(kBad));
  for (std::size_t i = 0; i < std::size(kBad); ++i)
    EXPECT_EQ(report.faults[i].find(folder.path("a") + "/" + kBad[i] + ": "), 0u)
        << report.faults[i];
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_EQ(report.warnings[0], folder.path("a/no_eoi.jpg") + ": the end marker is missing");
  std::int64_t decoded = 0;
  for (const auto& [format, count] : report.formats) decoded += count;
  EXPECT_EQ(decoded, files - std::int64_t(std::size(kBad)));
}

}  // namespace
}  // namespace tr
