// SPDX-License-Identifier: Apache-2.0
// Rows of a JPEG that are decoded in pairs because marks say where they begin: the same pixels, and
// the same outcome where one of the two is damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/jpeg_segments.h"
#include "data/formats/scan_marks.h"
#include "data/image_decode.h"
#include "renaissance/core/error.h"
#include "support/jpeg_writer.h"
#include "support/picture.h"

namespace tr {
namespace {

using data::ImageDecoder;
using data::PixelRect;
using data::ScanMarks;
using test::JpegSpec;
using test::make_jpeg;
using test::Picture;
using Bytes = std::vector<std::byte>;

Picture decode(const Bytes& bytes) {
  ImageDecoder decoder;
  decoder.open({bytes});
  return Picture(decoder.decode().pixels);
}

ScanMarks marks_of(const Bytes& bytes) {
  ScanMarks marks;
  ImageDecoder decoder;
  decoder.open({bytes, "marked.jpg", &marks});
  decoder.decode();
  return marks;
}

struct Kind {
  std::string name;
  JpegSpec spec;
  int mcu_height = 8;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<Kind> kinds() {
  using Color = JpegSpec::Color;
  const int w = 131, h = 330;
  return {
      {"444", {.width = w, .height = h, .h_samp = 1, .v_samp = 1}},
      {"422", {.width = w, .height = h, .h_samp = 2, .v_samp = 1}},
      {"420", {.width = w, .height = h}, 16},
      {"440", {.width = w, .height = h, .h_samp = 1, .v_samp = 2}, 16},
      {"411", {.width = w, .height = h, .h_samp = 4, .v_samp = 1}},
      {"gray", {.width = w, .height = h, .color = Color::GRAY, .h_samp = 1, .v_samp = 1}},
      {"coarse", {.width = w, .height = h, .h_samp = 1, .v_samp = 1, .quality = 20}},
      {"fine", {.width = w, .height = h, .h_samp = 1, .v_samp = 1, .quality = 100}},
      {"restarts", {.width = w, .height = h, .restart_rows = 1}, 16},
      {"restart_in_rows", {.width = w, .height = h, .h_samp = 1, .v_samp = 1, .restart_mcus = 5}},
      {"restart_over_rows",
       {.width = w, .height = h, .h_samp = 1, .v_samp = 1, .restart_mcus = 29}}};
}

class JpegRowsTest : public testing::TestWithParam<Kind> {};

TEST_P(JpegRowsTest, PairsAreTheRowsOneByOne) {
  const Kind& kind = GetParam();
  const Bytes bytes = make_jpeg(kind.spec);
  const Picture whole = decode(bytes);
  ScanMarks marks = marks_of(bytes);
  ASSERT_EQ(marks.rows_per_mark, 1);
  ImageDecoder decoder;
  // Odd and even numbers of rows, from odd and even ones on; all columns, and some in the middle.
  for (const int first : {0, 3, 8}) {
    for (const int rows : {1, 2, 3, 6, 11}) {
      for (const PixelRect& columns : {PixelRect{0, 0, 131, 0}, PixelRect{40, 0, 50, 0}}) {
        const int top = first * kind.mcu_height + 3, end = (first + rows) * kind.mcu_height - 3;
        const PixelRect crop{columns.x, top, columns.width, end - top};
        decoder.open({bytes, "marked.jpg", &marks});
        const data::DecodedImage image = decoder.decode({.crop = crop});
        EXPECT_EQ(Picture(image.pixels), whole.cut(crop)) << first << " " << rows;
        EXPECT_EQ(image.paired_rows, rows / 2) << first << " " << rows;
      }
    }
  }
}

/// Rows of pictures that have a mark every `rows_per_mark` rows.
TEST(JpegRowPairsTest, PairsOfLargePicturesLieAMarkApart) {
  for (const int rows_per_mark : {2, 3}) {
    const int rows = rows_per_mark * int(ScanMarks::kMost) + 1;
    const Bytes bytes = make_jpeg({.width = 50, .height = 8 * rows, .h_samp = 1, .v_samp = 1});
    const Picture whole = decode(bytes);
    ScanMarks marks = marks_of(bytes);
    ASSERT_EQ(marks.rows_per_mark, rows_per_mark);
    ImageDecoder decoder;
    for (int first = 0; first < 4; ++first) {
      for (const int count : {1, 2, 5, 6, 7, 12, rows - 4}) {
        const PixelRect crop{20, 8 * first + 3, 9, 8 * count - 6};
        decoder.open({bytes, "marked.jpg", &marks});
        const data::DecodedImage image = decoder.decode({.crop = crop});
        EXPECT_EQ(Picture(image.pixels), whole.cut(crop)) << first << " " << count;
        // Pairs begin at a row that has a mark.
        const int before = (rows_per_mark - first % rows_per_mark) % rows_per_mark;
        EXPECT_EQ(image.paired_rows > 0, count > before + rows_per_mark) << first << " " << count;
      }
    }
  }
}

TEST(JpegRowPairsTest, WideRowsAreDecodedOneByOne) {
  const Bytes bytes = make_jpeg({.width = 8000, .height = 40, .h_samp = 1, .v_samp = 1});
  ScanMarks marks = marks_of(bytes);
  ImageDecoder decoder;
  decoder.open({bytes, "marked.jpg", &marks});
  const data::DecodedImage image = decoder.decode();
  EXPECT_EQ(image.paired_rows, 0);
  EXPECT_EQ(Picture(image.pixels), decode(bytes));
}

/// Marks that are found by and by, pair by pair.
TEST_P(JpegRowsTest, MarksGrowBehindPairs) {
  const Kind& kind = GetParam();
  const Bytes bytes = make_jpeg(kind.spec);
  const Picture whole = decode(bytes);
  const ScanMarks all = marks_of(bytes);
  ScanMarks marks;
  ImageDecoder decoder;
  for (int end = kind.mcu_height; end <= kind.spec.height; end += 3 * kind.mcu_height) {
    for (int turn = 0; turn < 2; ++turn) {
      const PixelRect crop{90, std::max(0, end - 50), 41, std::min(end, 50)};
      decoder.open({bytes, "marked.jpg", &marks});
      EXPECT_EQ(Picture(decoder.decode({.crop = crop}).pixels), whole.cut(crop));
    }
  }
  ASSERT_GT(marks.known, 0);
  for (std::size_t i = 0; i < marks.known; ++i) {
    EXPECT_EQ(marks.offset_bits[i], all.offset_bits[i]);
    EXPECT_EQ(marks.dc[i], all.dc[i]);
  }
}

std::pair<std::optional<Picture>, std::string> outcome(const Bytes& bytes, const PixelRect& crop,
                                                       ScanMarks* marks) {
  ImageDecoder decoder;
  try {
    decoder.open({bytes, "odd.jpg", marks});
    const data::DecodedImage image = decoder.decode({.crop = crop});
    return {Picture(image.pixels), std::string(image.first_warning)};
  } catch (const DataError& error) {
    return {std::nullopt, error.what()};
  }
}

/// Damage in the row that begins at mark `row`, or the end of the file there.
TEST_P(JpegRowsTest, DamageInEitherRowOfAPairIsTheFilesOutcome) {
  const Kind& kind = GetParam();
  const Bytes good = make_jpeg(kind.spec);
  const ScanMarks all = marks_of(good);
  const std::size_t data = data::jpeg_layout(good).first_scan;
  int errors = 0, pictures = 0;
  for (const std::size_t row : {5u, 6u}) {
    const std::size_t begin = data + (all.offset_bits[row - 1] >> 3);
    const std::size_t middle = (begin + data + (all.offset_bits[row] >> 3)) / 2;
    const Bytes cut(good.begin(), good.begin() + std::ptrdiff_t(middle));
    Bytes cut_with_end = cut, marker = good, zeros = good, ones = good;
    for (const int byte : {0xff, 0xd9}) cut_with_end.push_back(std::byte(byte));
    marker[middle] = std::byte{0xff}, marker[middle + 1] = std::byte{0xc0};
    std::fill_n(zeros.begin() + std::ptrdiff_t(middle), 12, std::byte{0});
    for (std::size_t i = 0; i < 12; ++i) ones[middle + i] = std::byte(i % 2 == 0 ? 0xff : 0);
    for (const Bytes& bytes : {cut, cut_with_end, marker, zeros, ones}) {
      ScanMarks marks;
      const PixelRect above{0, 0, 131, int(row) * kind.mcu_height + 1};
      outcome(bytes, above, &marks);  // finds marks up to the damaged row
      for (int first = int(row) - 3; first <= int(row) + 1; ++first) {
        for (const int rows : {1, 2, 3, 4}) {
          const PixelRect crop{30, first * kind.mcu_height, 70, rows * kind.mcu_height};
          ScanMarks used = marks;
          const auto want = outcome(bytes, crop, nullptr), got = outcome(bytes, crop, &used);
          EXPECT_EQ(got, want) << row << ": " << first << " " << rows;
          ++(got.first ? pictures : errors);
        }
      }
    }
  }
  EXPECT_GT(errors, 0);
  EXPECT_GT(pictures, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, JpegRowsTest, testing::ValuesIn(kinds()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace tr
