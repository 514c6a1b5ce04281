// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/check.h"
#include "core/pixel/color.h"
#include "core/pixel/noise.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

constexpr int kRun = 8;  // elements that one block of draws serves

class GaussianNoiseStep final : public PixelStep {
 public:
  explicit GaussianNoiseStep(const GaussianNoise& t)
      : levels_{std::int32_t(t.mean * float(1 << pixel::kLevelBits)),
                std::int32_t(t.std * float(1 << pixel::kDeviationBits) + 0.5f)} {
    for (int i = 0; i < pixel::kNoiseSizes; ++i) sizes_[std::size_t(i)] = pixel::noise_size(i);
  }

  bool works_in_place() const override { return true; }

  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte*) const override {
    const std::size_t row_bytes = src.shape.row_bytes();
    std::int32_t noise[kRun];
    std::size_t element = 0;
    for (int y = 0; y < src.shape.height; ++y) {
      const std::uint8_t* line = src.row(y);
      for (std::size_t x = 0; x < row_bytes; ++x, ++element) {
        if (element % kRun == 0) fill_noise(draws, std::uint32_t(element / kRun), noise);
        *dst++ = std::uint8_t(pixel::cut_to_pixel(line[x] + noise[element % kRun]));
      }
    }
  }

  std::string describe(const pixel::StepDraws&, ImageShape) const override {
    return "for each value";
  }

 private:
  void fill_noise(const pixel::StepDraws& draws, std::uint32_t block,
                  std::int32_t (&noise)[kRun]) const {
    const Philox4 words = pixel::noise_block(draws, block);
    for (std::size_t i = 0; i < kRun; ++i) {
      const std::uint32_t bits = (words.v[i / 2] >> (16 * (i % 2))) & 0xffffu;
      noise[i] = pixel::noise_of(bits, sizes_[(bits >> 3) & 4095u], levels_);
    }
  }

  pixel::NoiseLevels levels_;
  std::array<std::int16_t, pixel::kNoiseSizes> sizes_;
};

}  // namespace

TransformRule rule_of(const GaussianNoise& t) {
  const std::string text = fmt::format("GaussianNoise({}, {})", t.mean, t.std);
  return {.text = text,
          .check =
              [=] {
                check_between(text, "mean", t.mean, -255, 255);
                check_between(text, "std", t.std, 0, 255);
              },
          .make_step = [=] { return std::make_unique<GaussianNoiseStep>(t); }};
}

}  // namespace tr::data
