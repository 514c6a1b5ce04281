// SPDX-License-Identifier: Apache-2.0
// RandomHorizontalFlip and RandomVerticalFlip.
#include <cstring>

#include "core/check.h"
#include "core/pixel/flip.h"
#include "data/transforms/mirror.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

enum class FlipAxis { HORIZONTAL, VERTICAL };

/// Where it can, a chain leaves horizontal mirroring to FusedNormalization.
class FlipStep final : public PixelStep {
 public:
  FlipStep(FlipAxis axis, float p) : is_horizontal_(axis == FlipAxis::HORIZONTAL), p_(p) {}

  bool mirrors() const override { return is_horizontal_; }
  bool commutes_with_mirror() const override { return !is_horizontal_; }
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
      if (mirrored && is_horizontal_) {
        mirror_row(src.row(y), src.shape.width, src.shape.channels, dst);
      } else {
        std::memcpy(dst, src.row(mirrored ? height - 1 - y : y), src.shape.row_bytes());
      }
    }
  }

 private:
  bool is_horizontal_;
  float p_;
};

TransformRule flip_rule(const char* name, FlipAxis axis, float p) {
  const std::string text = fmt::format("{}({})", name, p);
  return {.text = text,
          .check = [=] { check_probability(text, p); },
          .make_step = [=] { return std::make_unique<FlipStep>(axis, p); }};
}

}  // namespace

TransformRule rule_of(const RandomHorizontalFlip& t) {
  return flip_rule("RandomHorizontalFlip", FlipAxis::HORIZONTAL, t.p);
}

TransformRule rule_of(const RandomVerticalFlip& t) {
  return flip_rule("RandomVerticalFlip", FlipAxis::VERTICAL, t.p);
}

}  // namespace tr::data
