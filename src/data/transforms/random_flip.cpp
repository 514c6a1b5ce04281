// SPDX-License-Identifier: Apache-2.0
// RandomHorizontalFlip and RandomVerticalFlip.
#include <cstring>

#include "core/check.h"
#include "core/pixel/flip.h"
#include "data/transforms/mirror.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

/// Where it can, a chain leaves the mirroring to FusedNormalization.
class HorizontalFlipStep final : public PixelStep {
 public:
  explicit HorizontalFlipStep(float p) : p_(p) {}

  bool mirrors() const override { return true; }
  bool is_identity(const pixel::StepDraws& draws, ImageShape) const override {
    return !pixel::draw_chance(draws, p_);
  }
  std::string describe(const pixel::StepDraws& draws, ImageShape) const override {
    return pixel::draw_chance(draws, p_) ? "mirrored" : "not mirrored";
  }
  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte*) const override {
    const bool mirrored = pixel::draw_chance(draws, p_);
    for (int y = 0; y < src.shape.height; ++y, dst += src.shape.row_bytes()) {
      if (mirrored) {
        mirror_row(src.row(y), src.shape.width, src.shape.channels, dst);
      } else {
        std::memcpy(dst, src.row(y), src.shape.row_bytes());
      }
    }
  }

 private:
  float p_;
};

class VerticalFlipStep final : public PixelStep {
 public:
  explicit VerticalFlipStep(float p) : p_(p) {}

  bool commutes_with_mirror() const override { return true; }
  bool is_identity(const pixel::StepDraws& draws, ImageShape) const override {
    return !pixel::draw_chance(draws, p_);
  }
  std::string describe(const pixel::StepDraws& draws, ImageShape) const override {
    return pixel::draw_chance(draws, p_) ? "mirrored" : "not mirrored";
  }
  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte*) const override {
    const bool mirrored = pixel::draw_chance(draws, p_);
    const int height = src.shape.height;
    for (int y = 0; y < height; ++y, dst += src.shape.row_bytes()) {
      std::memcpy(dst, src.row(mirrored ? height - 1 - y : y), src.shape.row_bytes());
    }
  }

 private:
  float p_;
};

}  // namespace

TransformRule rule_of(const RandomHorizontalFlip& t) {
  const std::string text = fmt::format("RandomHorizontalFlip({})", t.p);
  return {.text = text,
          .check = [=] { check_probability(text, t.p); },
          .make_step = [=] { return std::make_unique<HorizontalFlipStep>(t.p); }};
}

TransformRule rule_of(const RandomVerticalFlip& t) {
  const std::string text = fmt::format("RandomVerticalFlip({})", t.p);
  return {.text = text,
          .check = [=] { check_probability(text, t.p); },
          .make_step = [=] { return std::make_unique<VerticalFlipStep>(t.p); }};
}

}  // namespace tr::data
