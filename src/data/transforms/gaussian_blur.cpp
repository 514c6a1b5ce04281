// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "core/pixel/blur.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

constexpr int kTile = 64;  // values at once: fixed, so that the loops are whole vectors

int radius_of(const GaussianBlur& t) {
  return t.kernel_size > 0 ? t.kernel_size / 2 : int(std::ceil(3 * t.sigma_max));
}

std::size_t whole_tiles(std::size_t count) { return (count + kTile - 1) / kTile * kTile; }

class GaussianBlurStep final : public PixelStep {
 public:
  explicit GaussianBlurStep(const GaussianBlur& t)
      : sigma_min_(t.sigma_min), sigma_max_(t.sigma_max), radius_(radius_of(t)) {}

  // The kernel is symmetric and so are its sums.
  bool commutes_with_mirror() const override { return true; }
  std::size_t scratch_bytes(ImageShape in) const override {
    return whole_tiles(in.row_bytes()) * std::size_t(in.height) * sizeof(std::uint16_t) +
           line_bytes(in);
  }

  std::string describe(const pixel::StepDraws& draws, ImageShape) const override {
    return fmt::format("sigma {:.4g}", pixel::draw_sigma(draws, sigma_min_, sigma_max_));
  }

  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte* scratch) const override {
    const auto weights =
        pixel::blur_weights(pixel::draw_sigma(draws, sigma_min_, sigma_max_), radius_);
    const std::size_t stride = whole_tiles(src.shape.row_bytes());
    auto* rows = reinterpret_cast<std::uint16_t*>(scratch);
    auto* line = reinterpret_cast<std::uint8_t*>(rows + stride * std::size_t(src.shape.height));
    for (int y = 0; y < src.shape.height; ++y) {
      across(widened(src.row(y), src.shape, line), src.shape, weights,
             rows + std::size_t(y) * stride);
    }
    for (int y = 0; y < src.shape.height; ++y, dst += src.shape.row_bytes()) {
      down(rows, src.shape, weights, y, dst);
    }
  }

 private:
  std::size_t line_bytes(ImageShape in) const {
    return std::size_t(2 * radius_ * in.channels) + whole_tiles(in.row_bytes());
  }

  /// The row with `radius` mirrored pixels on both sides; returns its first pixel.
  const std::uint8_t* widened(const std::uint8_t* row, ImageShape shape, std::uint8_t* line) const {
    const int channels = shape.channels, width = shape.width;
    std::uint8_t* first = line + radius_ * channels;
    std::memcpy(first, row, shape.row_bytes());
    const auto put = [&](int x) {
      std::memcpy(first + x * channels, row + pixel::mirrored_index(x, width) * channels,
                  std::size_t(channels));
    };
    for (int x = 1; x <= radius_; ++x) {
      put(-x);
      put(width - 1 + x);
    }
    return first;
  }

  static void across(const std::uint8_t* row, ImageShape shape, const pixel::BlurWeights& weights,
                     std::uint16_t* out) {
    const int bytes = int(shape.row_bytes());
    for (int x = 0; x < bytes; x += kTile, row += kTile, out += kTile) {
      std::uint32_t sums[kTile];
      for (int i = 0; i < kTile; ++i) sums[i] = weights.weight[0] * row[i];
      for (int k = 1; k <= weights.radius; ++k) {
        const std::uint8_t *left = row - k * shape.channels, *right = row + k * shape.channels;
        for (int i = 0; i < kTile; ++i) {
          sums[i] += weights.weight[k] * (std::uint32_t(left[i]) + right[i]);
        }
      }
      for (int i = 0; i < kTile; ++i) out[i] = std::uint16_t(pixel::blur_round_across(sums[i]));
    }
  }

  static void down(const std::uint16_t* rows, ImageShape shape, const pixel::BlurWeights& weights,
                   int y, std::uint8_t* dst) {
    const std::size_t stride = whole_tiles(shape.row_bytes());
    const auto row_at = [&](int place) {
      return rows + std::size_t(pixel::mirrored_index(place, shape.height)) * stride;
    };
    const int bytes = int(shape.row_bytes());
    for (int x = 0; x < bytes; x += kTile) {
      std::uint32_t sums[kTile];
      const std::uint16_t* middle = row_at(y) + x;
      for (int i = 0; i < kTile; ++i) sums[i] = weights.weight[0] * middle[i];
      for (int k = 1; k <= weights.radius; ++k) {
        const std::uint16_t *above = row_at(y - k) + x, *below = row_at(y + k) + x;
        for (int i = 0; i < kTile; ++i) {
          sums[i] += weights.weight[k] * (std::uint32_t(above[i]) + below[i]);
        }
      }
      std::uint8_t pixels[kTile];
      for (int i = 0; i < kTile; ++i) pixels[i] = std::uint8_t(pixel::blur_round_down(sums[i]));
      std::memcpy(dst + x, pixels, std::size_t(std::min(kTile, bytes - x)));
    }
  }

  float sigma_min_, sigma_max_;
  int radius_;
};

void check(const std::string& text, const GaussianBlur& t) {
  TR_CHECK(t.sigma_min > 0 && t.sigma_min <= t.sigma_max && std::isfinite(t.sigma_max),
           "{}: sigma is [{}, {}], must satisfy 0 < min <= max", text, t.sigma_min, t.sigma_max);
  TR_CHECK(t.kernel_size == 0 || (t.kernel_size > 0 && t.kernel_size % 2 == 1),
           "{}: kernel_size is {}, must be odd, or 0 for what sigma asks for", text, t.kernel_size);
  TR_CHECK(t.sigma_max <= 42 && t.kernel_size <= 2 * pixel::kMaxBlurRadius + 1,
           "{}: the kernel reaches farther than {} pixels to one side", text,
           pixel::kMaxBlurRadius);
}

}  // namespace

TransformRule rule_of(const GaussianBlur& t) {
  const std::string text =
      fmt::format("GaussianBlur({}, {}, kernel_size={})", t.sigma_min, t.sigma_max, t.kernel_size);
  return {.text = text,
          .check = [=] { check(text, t); },
          .make_step = [=] { return std::make_unique<GaussianBlurStep>(t); }};
}

}  // namespace tr::data
