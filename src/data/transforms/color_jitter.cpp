// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "data/transforms/color_pass.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

constexpr float kMaxStrength = 15;  // factors up to 16: beyond, every difference is cut anyway

std::string text_of(const ColorJitter& t) {
  return fmt::format("ColorJitter({}, {}, {}, {})", t.brightness, t.contrast, t.saturation, t.hue);
}

class ColorJitterStep final : public PixelStep {
 public:
  explicit ColorJitterStep(const ColorJitter& t)
      : range_{t.brightness, t.contrast, t.saturation, t.hue}, text_(text_of(t)) {}

  ImageShape out_shape(ImageShape in) const override {
    check_colors(text_, in);
    return in;
  }
  bool works_in_place() const override { return true; }
  bool commutes_with_mirror() const override { return true; }

  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte*) const override {
    const pixel::Jitter jitter = pixel::draw_jitter(draws, range_);
    ColorStep steps[4];
    for (int i = 0; i < 4; ++i) steps[i] = {jitter.order[i], jitter.factor[int(jitter.order[i])]};
    apply_colors(src, steps, dst);
  }

  std::string describe(const pixel::StepDraws& draws, ImageShape) const override {
    constexpr const char* kNames[] = {"brightness", "contrast", "saturation", "hue"};
    const pixel::Jitter jitter = pixel::draw_jitter(draws, range_);
    std::string text;
    for (const pixel::ColorOp op : jitter.order) {
      const float factor = float(jitter.factor[int(op)]);
      const float one = float(op == pixel::ColorOp::HUE ? pixel::kHueTurn : pixel::kFactorOne);
      text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", kNames[int(op)], factor / one);
    }
    return text;
  }

 private:
  pixel::JitterRange range_;
  std::string text_;
};

}  // namespace

TransformRule rule_of(const ColorJitter& t) {
  const std::string text = text_of(t);
  return {.text = text,
          .check =
              [=] {
                check_between(text, "brightness", t.brightness, 0, kMaxStrength);
                check_between(text, "contrast", t.contrast, 0, kMaxStrength);
                check_between(text, "saturation", t.saturation, 0, kMaxStrength);
                check_between(text, "hue", t.hue, 0, 0.5f);
              },
          .make_step = [=] { return std::make_unique<ColorJitterStep>(t); }};
}

}  // namespace tr::data
