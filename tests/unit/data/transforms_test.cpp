// SPDX-License-Identifier: Apache-2.0
// Each pixel step against a reference that follows its definition pixel by pixel, in double where
// it rounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/pixel/crop.h"
#include "core/pixel/erase.h"
#include "core/pixel/rotate.h"
#include "core/pixel/scale.h"
#include "data/transforms/pixel_step.h"
#include "support/tolerance.h"
#include "unit/data/pixel_images.h"

namespace tr::data {
namespace {

using test::at;
using test::Image;
using test::random_image;
using test::run_step;

pixel::StepDraws draws_of(std::uint64_t sample, std::uint32_t step = 0) {
  return {{11, DrawPurpose::AUGMENT, 3, sample}, step};
}

const ImageShape kShapes[] = {{28, 28, 1}, {1, 1, 1},   {7, 40, 1}, {33, 5, 3},
                              {64, 65, 2}, {32, 32, 1}, {31, 33, 1}};

TEST(PadTest, EveryModeTakesTheRightPixel) {
  const Image image = random_image({4, 5, 2}, 1);
  const auto mirrored = [](int i, int side, int edge) {
    if (i < 0) return -i - edge;
    return i >= side ? 2 * side - 2 - i + edge : i;
  };
  for (const PadMode mode :
       {PadMode::CONSTANT, PadMode::EDGE, PadMode::REFLECT, PadMode::SYMMETRIC}) {
    const Image padded = run_step(*make_step(Pad(3, 9, mode)), image, draws_of(0));
    ASSERT_EQ(padded.shape.height, 10);
    ASSERT_EQ(padded.shape.width, 11);
    for (int y = -3; y < 7; ++y) {
      for (int x = -3; x < 8; ++x) {
        const bool inside = y >= 0 && y < 4 && x >= 0 && x < 5;
        int expected = 9;
        if (mode == PadMode::EDGE)
          expected = at(image, std::clamp(y, 0, 3), std::clamp(x, 0, 4), 1);
        if (mode == PadMode::REFLECT) expected = at(image, mirrored(y, 4, 0), mirrored(x, 5, 0), 1);
        if (mode == PadMode::SYMMETRIC)
          expected = at(image, mirrored(y, 4, 1), mirrored(x, 5, 1), 1);
        if (inside) expected = at(image, y, x, 1);
        ASSERT_EQ(at(padded, y + 3, x + 3, 1), expected) << y << ' ' << x;
      }
    }
  }
}

TEST(RandomCropTest, IsTheDrawnWindow) {
  const Image image = random_image({9, 11, 3}, 2);
  const auto step = make_step(RandomCrop(6));
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    const auto window = pixel::draw_crop(draws_of(sample), 9, 11, 6, 6);
    const Image cut = run_step(*step, image, draws_of(sample));
    for (int y = 0; y < 6; ++y) {
      for (int x = 0; x < 6; ++x)
        ASSERT_EQ(at(cut, y, x, 2), at(image, y + window.top, x + window.left, 2));
    }
  }
}

TEST(RandomCropTest, EveryPlaceIsAboutEquallyFrequent) {
  int counts[3][4] = {};
  for (std::uint64_t sample = 0; sample < 12000; ++sample) {
    const auto window = pixel::draw_crop(draws_of(sample), 8, 9, 6, 6);
    ++counts[window.top][window.left];
  }
  for (const auto& row : counts) {
    for (const int n : row) EXPECT_NEAR(n, 1000, 6 * 31);
  }
}

TEST(RandomCropTest, SmallImagesGetAMarginOfZeros) {
  const Image image = random_image({3, 8, 1}, 3);
  const Image cut = run_step(*make_step(RandomCrop(7)), image, draws_of(4));
  for (int x = 0; x < 7; ++x) {
    for (const int y : {0, 1, 5, 6}) EXPECT_EQ(at(cut, y, x, 0), 0);
  }
  const auto window = pixel::draw_crop(draws_of(4), 7, 8, 7, 7);
  EXPECT_EQ(at(cut, 3, 2, 0), at(image, 1, 2 + window.left, 0));
}

/// Bilinear in double; outside the image is 77.
double rotated(const Image& image, double degrees, int y, int x, int c) {
  constexpr int kFill = 77;
  const double radians = degrees * M_PI / 180, cx = (image.shape.width - 1) / 2.0,
               cy = (image.shape.height - 1) / 2.0;
  const double sx = std::cos(radians) * (x - cx) - std::sin(radians) * (y - cy) + cx;
  const double sy = std::sin(radians) * (x - cx) + std::cos(radians) * (y - cy) + cy;
  const int x0 = int(std::floor(sx)), y0 = int(std::floor(sy));
  const double fx = sx - x0, fy = sy - y0;
  const auto p = [&](int yy, int xx) {
    const bool inside = yy >= 0 && yy < image.shape.height && xx >= 0 && xx < image.shape.width;
    return inside ? double(at(image, yy, xx, c)) : double(kFill);
  };
  return (1 - fy) * ((1 - fx) * p(y0, x0) + fx * p(y0, x0 + 1)) +
         fy * ((1 - fx) * p(y0 + 1, x0) + fx * p(y0 + 1, x0 + 1));
}

/// Rows and columns of `image` from (top, left) on; zeros outside.
Image window_of(const Image& image, int top, int left, int height, int width) {
  Image out{{height, width, image.shape.channels}, {}};
  for (int y = top; y < top + height; ++y) {
    for (int x = left; x < left + width; ++x) {
      const bool inside = y >= 0 && x >= 0 && y < image.shape.height && x < image.shape.width;
      for (int c = 0; c < image.shape.channels; ++c)
        out.pixels.push_back(inside ? std::uint8_t(at(image, y, x, c)) : std::uint8_t(0));
    }
  }
  return out;
}

TEST(RectangleTest, CropsCutBothSides) {
  const Image image = random_image({30, 50, 3}, 8);
  const auto centre = make_step(CenterCrop(ImageSize(10, 41)));
  EXPECT_EQ(run_step(*centre, image, draws_of(0)).pixels, window_of(image, 10, 4, 10, 41).pixels);
  const auto taller = make_step(CenterCrop(ImageSize(34, 7)));  // two rows of zeros on both ends
  EXPECT_EQ(run_step(*taller, image, draws_of(0)).pixels, window_of(image, -2, 22, 34, 7).pixels);
  const auto drawn = make_step(RandomCrop(ImageSize(8, 45)));
  for (std::uint64_t sample = 0; sample < 20; ++sample) {
    const auto window = pixel::draw_crop(draws_of(sample), 30, 50, 8, 45);
    EXPECT_EQ(run_step(*drawn, image, draws_of(sample)).pixels,
              window_of(image, window.top, window.left, 8, 45).pixels);
  }
}

TEST(RectangleTest, RegionsAreScaledToBothSides) {
  const Image image = random_image({40, 60, 3}, 9);
  for (const Transform& region : {Transform(RandomResizedCrop(ImageSize(12, 33))),
                                  Transform(FastRandomResizedCrop(ImageSize(12, 33)))}) {
    const auto step = make_step(region);
    for (std::uint64_t sample = 0; sample < 20; ++sample) {
      const auto crop = step->source_crop(draws_of(sample), image.shape);
      ASSERT_TRUE(crop);
      EXPECT_EQ(crop->target_height, 12);
      EXPECT_EQ(crop->target_width, 33);
      const bool smooth = std::holds_alternative<RandomResizedCrop>(region);
      const auto stretch = make_step(
          Resize(ImageSize(12, 33), ResizeMode::STRETCH, Interpolation::BILINEAR, smooth));
      const Image part = window_of(image, crop->top, crop->left, crop->height, crop->width);
      EXPECT_EQ(run_step(*step, image, draws_of(sample)).pixels,
                run_step(*stretch, part, draws_of(0)).pixels);
    }
  }
}

TEST(RandomRotationTest, MatchesBilinearInDouble) {
  for (const ImageShape shape : kShapes) {
    const Image image = random_image(shape, 4);
    for (const float limit : {20.0f, 180.0f}) {
      const auto step = make_step(RandomRotation(limit, 77));
      for (std::uint64_t sample = 0; sample < 6; ++sample) {
        const float angle = pixel::uniform_between(draws_of(sample).block(0).v[0], -limit, limit);
        const Image got = run_step(*step, image, draws_of(sample));
        for (int y = 0; y < shape.height; ++y) {
          for (int x = 0; x < shape.width; ++x) {
            for (int c = 0; c < shape.channels; ++c) {
              ASSERT_NEAR(at(got, y, x, c), rotated(image, angle, y, x, c), test::kRotationLevels)
                  << angle << ' ' << y << ' ' << x;
            }
          }
        }
      }
    }
  }
}

TEST(RandomRotationTest, EqualsItsDefinitionInEveryBit) {
  for (const ImageShape shape : kShapes) {
    const Image image = random_image(shape, 5);
    const auto step = make_step(RandomRotation(70.0f, 5));
    for (std::uint64_t sample = 0; sample < 4; ++sample) {
      const pixel::Rotation r = pixel::draw_rotation(draws_of(sample), 70.0f);
      const Image got = run_step(*step, image, draws_of(sample));
      for (int y = 0; y < shape.height; ++y) {
        for (int x = 0; x < shape.width; ++x) {
          const int sx = pixel::rotate_source_x(r, x, y, shape.width, shape.height);
          const int sy = pixel::rotate_source_y(r, x, y, shape.width, shape.height);
          const int x0 = pixel::rotate_index(sx, shape.width),
                    y0 = pixel::rotate_index(sy, shape.height);
          for (int c = 0; c < shape.channels; ++c) {
            const auto p = [&](int yy, int xx) -> std::uint32_t {
              const bool inside = yy >= 0 && yy < shape.height && xx >= 0 && xx < shape.width;
              return inside ? std::uint32_t(at(image, yy, xx, c)) : 5u;
            };
            const std::uint32_t quad =
                p(y0, x0) | p(y0, x0 + 1) << 8 | p(y0 + 1, x0) << 16 | p(y0 + 1, x0 + 1) << 24;
            ASSERT_EQ(at(got, y, x, c), pixel::blend_quad(quad, pixel::rotate_fraction(sx),
                                                          pixel::rotate_fraction(sy)));
          }
        }
      }
    }
  }
}

// torchvision 0.26.0+cu130: rotate(image, -22.5473366, BILINEAR) of a 6x7 image; see
// tests/unit/data/golden_rotation.py.
TEST(RandomRotationTest, TurnsTheWayTorchvisionDoes) {
  Image image = random_image({6, 7, 1}, 6);
  for (int i = 0; i < 42; ++i) image.pixels[std::size_t(i)] = std::uint8_t(i * 37 % 256);
  const float angle = pixel::uniform_between(draws_of(0).block(0).v[0], -40.0f, 40.0f);
  ASSERT_FLOAT_EQ(angle, -22.5473366f);
  const Image got = run_step(*make_step(RandomRotation(40.0f)), image, draws_of(0));
  const int expected[] = {1,  10, 43,  76,  89,  61,  7,   4,  27, 60,  93,  126, 159, 185,
                          11, 44, 77,  110, 143, 176, 209, 28, 61, 94,  127, 160, 193, 226,
                          43, 78, 111, 144, 177, 210, 151, 2,  40, 103, 161, 194, 227, 63};
  for (int i = 0; i < 42; ++i)
    EXPECT_NEAR(got.pixels[std::size_t(i)], expected[i], test::kTorchvisionLevels) << i;
}

TEST(RandomRotationTest, ZeroDegreesChangeNothing) {
  for (const ImageShape shape : kShapes) {
    const Image image = random_image(shape, 7);
    EXPECT_EQ(run_step(*make_step(RandomRotation(0.0f)), image, draws_of(1)).pixels, image.pixels);
  }
}

/// One pixel of the scaled image, centred into the old size, in double.
double scaled(const Image& image, pixel::ScaledSize size, int y, int x, int c) {
  const auto source = [](int i, int from, int to, double& at) {
    const int inside = i - (from - to) / 2;
    if (inside < 0 || inside >= to) return false;
    at = std::clamp((inside + 0.5) * from / to - 0.5, 0.0, from - 1.0);
    return true;
  };
  double sx = 0, sy = 0;
  if (!source(y, image.shape.height, size.height, sy) ||
      !source(x, image.shape.width, size.width, sx))
    return 0;
  const int x0 = int(sx), y0 = int(sy);
  const int x1 = std::min(x0 + 1, image.shape.width - 1),
            y1 = std::min(y0 + 1, image.shape.height - 1);
  const double fx = sx - x0, fy = sy - y0;
  return (1 - fy) * ((1 - fx) * at(image, y0, x0, c) + fx * at(image, y0, x1, c)) +
         fy * ((1 - fx) * at(image, y1, x0, c) + fx * at(image, y1, x1, c));
}

TEST(RandomScaleTest, MatchesBilinearInDouble) {
  for (const ImageShape shape : kShapes) {
    const Image image = random_image(shape, 8);
    for (const Range ratios : {Range{0.8f, 1.2f}, Range{0.1f, 0.5f}, Range{1.5f, 4.0f}}) {
      const auto step = make_step(RandomScale(ratios.low, ratios.high));
      for (std::uint64_t sample = 0; sample < 6; ++sample) {
        const auto size = pixel::draw_scaled_size(draws_of(sample), shape.height, shape.width,
                                                  ratios.low, ratios.high);
        const Image got = run_step(*step, image, draws_of(sample));
        for (int y = 0; y < shape.height; ++y) {
          for (int x = 0; x < shape.width; ++x) {
            for (int c = 0; c < shape.channels; ++c) {
              ASSERT_NEAR(at(got, y, x, c), scaled(image, size, y, x, c), test::kScalingLevels)
                  << size.height << 'x' << size.width;
            }
          }
        }
      }
    }
  }
}

TEST(RandomScaleTest, EqualsItsDefinitionInEveryBit) {
  for (const ImageShape shape : kShapes) {
    const Image image = random_image(shape, 9);
    const auto step = make_step(RandomScale(0.6f, 1.6f));
    for (std::uint64_t sample = 0; sample < 8; ++sample) {
      const auto size =
          pixel::draw_scaled_size(draws_of(sample), shape.height, shape.width, 0.6f, 1.6f);
      const auto ax = pixel::make_scale_axis(shape.width, size.width),
                 ay = pixel::make_scale_axis(shape.height, size.height);
      const Image got = run_step(*step, image, draws_of(sample));
      for (int y = 0; y < shape.height; ++y) {
        for (int x = 0; x < shape.width; ++x) {
          const bool inside =
              x >= ax.margin && x < ax.margin + ax.to && y >= ay.margin && y < ay.margin + ay.to;
          const auto tx = pixel::scale_tap(ax, x), ty = pixel::scale_tap(ay, y);
          const int x1 = std::min(tx.index + 1, shape.width - 1),
                    y1 = std::min(ty.index + 1, shape.height - 1);
          for (int c = 0; c < shape.channels; ++c) {
            const int top = pixel::blend_row(at(image, ty.index, tx.index, c),
                                             at(image, ty.index, x1, c), tx.fraction);
            const int bottom =
                pixel::blend_row(at(image, y1, tx.index, c), at(image, y1, x1, c), tx.fraction);
            ASSERT_EQ(at(got, y, x, c), inside ? pixel::blend_column(top, bottom, ty.fraction) : 0);
          }
        }
      }
    }
  }
}

TEST(RandomScaleTest, RatioOneChangesNothing) {
  for (const ImageShape shape : kShapes) {
    const Image image = random_image(shape, 10);
    EXPECT_EQ(run_step(*make_step(RandomScale(1.0f, 1.0f)), image, draws_of(1)).pixels,
              image.pixels);
  }
}

TEST(RandomScaleTest, WidthAndHeightAreDrawnApart) {
  int different = 0;
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    const auto size = pixel::draw_scaled_size(draws_of(sample), 28, 28, 0.8f, 1.2f);
    EXPECT_GE(size.width, 22);
    EXPECT_LE(size.width, 34);
    different += size.width != size.height;
  }
  EXPECT_GT(different, 60);
}

TEST(RandomErasingTest, RectanglesHaveTheAskedAreaRatioAndFrequency) {
  const pixel::EraseRange range{0.5f, 0.02f, 0.33f, det::log(0.3f), det::log(3.3f)};
  int erased = 0;
  for (std::uint64_t sample = 0; sample < 10000; ++sample) {
    const auto rect = pixel::draw_erase(draws_of(sample), 100, 100, range);
    if (rect.height == 0) continue;
    ++erased;
    ASSERT_GE(rect.top, 0);
    ASSERT_GE(rect.left, 0);
    ASSERT_LE(rect.top + rect.height, 100);
    ASSERT_LE(rect.left + rect.width, 100);
    const double area = rect.height * rect.width / 1e4, ratio = double(rect.height) / rect.width;
    ASSERT_GT(area, 0.02 * 0.85);  // sides are rounded to pixels
    ASSERT_LT(area, 0.33 * 1.05);
    ASSERT_GT(ratio, 0.3 * 0.85);
    ASSERT_LT(ratio, 3.3 * 1.15);
  }
  EXPECT_NEAR(erased, 5000, 6 * 50);
}

}  // namespace
}  // namespace tr::data
