// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/color_pass.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tr::data {
namespace {

using pixel::ColorOp;
using pixel::kFactorOne;

constexpr int kHeight = 7, kWidth = 41;  // whole tiles of 32 pixels and a rest

std::vector<std::uint8_t> random_pixels(std::size_t count) {
  std::mt19937 random(3);
  std::vector<std::uint8_t> pixels(count);
  for (std::uint8_t& x : pixels)
    x = std::uint8_t(random() % 4 == 0 ? random() % 2 * 255 : random());
  return pixels;
}

/// One step, pixel by pixel, as core/pixel/color.h says.
std::vector<std::uint8_t> expected(const std::vector<std::uint8_t>& in, int channels,
                                   const ColorStep& step) {
  std::int64_t sum = 0;
  const auto luma_at = [&](std::size_t i) {
    return channels == 1 ? std::int32_t(in[i]) : pixel::luma(in[i], in[i + 1], in[i + 2]);
  };
  for (std::size_t i = 0; i < in.size(); i += std::size_t(channels)) sum += luma_at(i);
  const std::int64_t count = std::int64_t(in.size()) / channels;
  const std::int32_t mean_rest = pixel::mean_rest(step.factor, sum, count);
  std::vector<std::uint8_t> out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::int32_t own_rest =
        (kFactorOne - step.factor) * luma_at(i / std::size_t(channels) * std::size_t(channels));
    switch (step.op) {
      case ColorOp::BRIGHTNESS: out[i] = std::uint8_t(pixel::brighten(in[i], step.factor)); break;
      case ColorOp::CONTRAST:
        out[i] = std::uint8_t(pixel::blend_factor(in[i], step.factor, mean_rest));
        break;
      default: out[i] = std::uint8_t(pixel::blend_factor(in[i], step.factor, own_rest));
    }
  }
  return out;
}

/// Words whose halves are at their ends: the vectors take factors apart into such.
TEST(ColorPassTest, EqualsTheScalarArithmeticForEveryFactor) {
  std::mt19937 random(5);
  std::vector<std::int32_t> factors{0,       1,       0x7fff,  0x8000,  0x8001,          0xffff,
                                    0x10001, 0x17fff, 0x18000, 0x1ffff, 16 * kFactorOne, 78643};
  for (int i = 0; i < 200; ++i) factors.push_back(std::int32_t(random() % (16u * kFactorOne)));
  for (const int channels : {1, 3}) {
    const auto in = random_pixels(std::size_t(kHeight) * kWidth * std::size_t(channels));
    const ImageRef image(in.data(), {kHeight, kWidth, channels});
    for (const ColorOp op : {ColorOp::BRIGHTNESS, ColorOp::CONTRAST, ColorOp::SATURATION}) {
      if (channels == 1 && op == ColorOp::SATURATION) continue;  // has no effect
      for (const std::int32_t factor : factors) {
        const ColorStep step{op, factor};
        std::vector<std::uint8_t> out(in.size() + kImageSlack);
        apply_colors(image, {&step, 1}, out.data());
        out.resize(in.size());
        ASSERT_EQ(out, expected(in, channels, step))
            << "op " << int(op) << ", factor " << factor << ", channels " << channels;
      }
    }
  }
}

TEST(ColorPassTest, LumaOfEveryColor) {
  std::vector<std::uint8_t> in(3 * 65536), out(3 * 65536 + kImageSlack);
  for (int r = 0; r < 256; ++r) {
    for (std::size_t i = 0; i < 65536; ++i) {
      in[3 * i] = std::uint8_t(r), in[3 * i + 1] = std::uint8_t(i >> 8);
      in[3 * i + 2] = std::uint8_t(i);
    }
    apply_luma(ImageRef(in.data(), {256, 256, 3}), out.data());
    int faults = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t at = i / 3 * 3;
      faults += out[i] != pixel::luma(in[at], in[at + 1], in[at + 2]);
    }
    ASSERT_EQ(faults, 0) << "red " << r;
  }
}

}  // namespace
}  // namespace tr::data
