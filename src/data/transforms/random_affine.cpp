// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "data/transforms/affine_warp.h"
#include "data/transforms/rules.h"
#include "data/transforms/words.h"

namespace tr::data {
namespace {

std::string text_of(const RandomAffine& t) {
  return fmt::format(
      "RandomAffine({}, translate=[{}, {}], scale=[{}, {}], shear_x=[{}, {}], shear_y=[{}, {}], "
      "fill={}, {})",
      t.degrees, t.translate.low, t.translate.high, t.scale.low, t.scale.high, t.shear_x.low,
      t.shear_x.high, t.shear_y.low, t.shear_y.high, t.fill, word_of(t.interpolation));
}

void check_shear(const std::string& text, const char* what, Range shear) {
  TR_CHECK(shear.low >= -80 && shear.low <= shear.high && shear.high <= 80,
           "{}: {} is [{}, {}], must satisfy -80 <= low <= high <= 80 (degrees)", text, what,
           shear.low, shear.high);
}

void check(const std::string& text, const RandomAffine& t) {
  check_between(text, "degrees", t.degrees, 0, 360);
  check_between(text, "translate (width)", t.translate.low, 0, 1);
  check_between(text, "translate (height)", t.translate.high, 0, 1);
  TR_CHECK(t.scale.low >= 0.0625f && t.scale.low <= t.scale.high && t.scale.high <= 16,
           "{}: scale is [{}, {}], must satisfy 1/16 <= low <= high <= 16", text, t.scale.low,
           t.scale.high);
  check_shear(text, "shear_x", t.shear_x);
  check_shear(text, "shear_y", t.shear_y);
  check_fill(text, t.fill);
  TR_CHECK(t.interpolation != Interpolation::BICUBIC,
           "{}: interpolation is BICUBIC, must be NEAREST or BILINEAR", text);
}

class RandomAffineStep final : public PixelStep {
 public:
  explicit RandomAffineStep(const RandomAffine& t)
      : range_{t.degrees,     t.translate.low, t.translate.high, t.scale.low,   t.scale.high,
               t.shear_x.low, t.shear_x.high,  t.shear_y.low,    t.shear_y.high},
        fill_(t.fill),
        interpolation_(t.interpolation) {}

  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte*) const override {
    const auto drawn = pixel::draw_affine(draws, src.shape.height, src.shape.width, range_);
    warp_affine(src, pixel::affine_map(drawn), fill_, interpolation_, dst);
  }

  std::string describe(const pixel::StepDraws& draws, ImageShape in) const override {
    const auto p = pixel::draw_affine(draws, in.height, in.width, range_);
    return fmt::format("angle {:.4g}, right {}, down {}, scale {:.4g}, shear {:.4g} {:.4g}",
                       p.degrees, p.shift_x, p.shift_y, p.scale, p.shear_x, p.shear_y);
  }

 private:
  pixel::AffineRange range_;
  int fill_;
  Interpolation interpolation_;
};

}  // namespace

TransformRule rule_of(const RandomAffine& t) {
  const std::string text = text_of(t);
  return {.text = text,
          .check = [=] { check(text, t); },
          .make_step = [=] { return std::make_unique<RandomAffineStep>(t); }};
}

}  // namespace tr::data
