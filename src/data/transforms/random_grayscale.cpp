// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/pixel/flip.h"
#include "data/transforms/color_pass.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

class GrayscaleStep final : public PixelStep {
 public:
  GrayscaleStep(float p, std::string text) : p_(p), text_(std::move(text)) {}

  ImageShape out_shape(ImageShape in) const override {
    check_colors(text_, in);
    return in;
  }
  bool works_in_place() const override { return true; }
  bool commutes_with_mirror() const override { return true; }
  bool is_identity(const pixel::StepDraws& draws, ImageShape in) const override {
    return in.channels == 1 || !pixel::draw_chance(draws, p_);
  }
  std::string describe(const pixel::StepDraws& draws, ImageShape) const override {
    return pixel::draw_chance(draws, p_) ? "gray" : "not gray";
  }
  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte*) const override {
    if (pixel::draw_chance(draws, p_)) return apply_luma(src, dst);
    apply_colors(src, {}, dst);
  }

 private:
  float p_;
  std::string text_;
};

}  // namespace

TransformRule rule_of(const RandomGrayscale& t) {
  const std::string text = fmt::format("RandomGrayscale({})", t.p);
  return {.text = text,
          .check = [=] { check_probability(text, t.p); },
          .make_step = [=] { return std::make_unique<GrayscaleStep>(t.p, text); }};
}

}  // namespace tr::data
