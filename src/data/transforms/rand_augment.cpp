// SPDX-License-Identifier: Apache-2.0
// RandAugment (Cubuk et al. 2019, arXiv:1909.13719) and TrivialAugment (Mueller, Hutter 2021,
// arXiv:2103.10158): operations of one table, of a given and of a drawn strength.
#include "core/check.h"
#include "data/transforms/augment_ops.h"
#include "data/transforms/color_pass.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

class AugmentStep final : public PixelStep {
 public:
  AugmentStep(int num_ops, const pixel::AugmentSpace& space, int fill, std::string text)
      : num_ops_(num_ops), space_(space), fill_(fill), text_(std::move(text)) {}

  ImageShape out_shape(ImageShape in) const override {
    check_colors(text_, in);
    return in;
  }
  std::size_t scratch_bytes(ImageShape in) const override {
    return buffer_bytes(in) + augment_scratch_bytes(in);
  }

  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte* scratch) const override {
    auto* buffer = reinterpret_cast<std::uint8_t*>(scratch);
    std::byte* tables = scratch + buffer_bytes(src.shape);
    ImageRef now = src;
    for (int i = 0; i < num_ops_; ++i) {
      const auto choice =
          pixel::draw_augment(draws, std::uint32_t(i), src.shape.height, src.shape.width, space_);
      // In turns, so that the last one ends in dst.
      std::uint8_t* out = (num_ops_ - 1 - i) % 2 == 0 ? dst : buffer;
      apply_augment(now, choice, fill_, out, tables);
      now = ImageRef(out, src.shape);
    }
  }

  std::string describe(const pixel::StepDraws& draws, ImageShape in) const override {
    constexpr const char* kNames[] = {"Identity",     "ShearX",    "ShearY",     "TranslateX",
                                      "TranslateY",   "Rotate",    "Brightness", "Color",
                                      "Contrast",     "Sharpness", "Posterize",  "Solarize",
                                      "AutoContrast", "Equalize"};
    std::string text;
    for (int i = 0; i < num_ops_; ++i) {
      const auto choice = pixel::draw_augment(draws, std::uint32_t(i), in.height, in.width, space_);
      text +=
          fmt::format("{}{} {:.4g}", i > 0 ? ", " : "", kNames[int(choice.op)], choice.strength);
    }
    return text;
  }

 private:
  static std::size_t buffer_bytes(ImageShape in) {
    return (in.num_bytes() + kImageSlack + 63) / 64 * 64;
  }

  int num_ops_;
  pixel::AugmentSpace space_;
  int fill_;
  std::string text_;
};

}  // namespace

TransformRule rule_of(const RandAugment& t) {
  const std::string text = fmt::format("RandAugment({}, {}, num_bins={}, fill={})", t.num_ops,
                                       t.magnitude, t.num_bins, t.fill);
  return {.text = text,
          .check =
              [=] {
                TR_CHECK(t.num_ops >= 1 && t.num_ops <= 14, "{}: num_ops is {}, must be in 1..14",
                         text, t.num_ops);
                TR_CHECK(t.num_bins >= 2 && t.num_bins <= 1000,
                         "{}: num_bins is {}, must be in 2..1000", text, t.num_bins);
                TR_CHECK(t.magnitude >= 0 && t.magnitude < t.num_bins,
                         "{}: magnitude is {}, must be in 0..{}", text, t.magnitude,
                         t.num_bins - 1);
                check_fill(text, t.fill);
              },
          .make_step =
              [=] {
                return std::make_unique<AugmentStep>(
                    t.num_ops, pixel::AugmentSpace{.bins = t.num_bins, .bin = t.magnitude}, t.fill,
                    text);
              }};
}

TransformRule rule_of(const TrivialAugment& t) {
  const std::string text = fmt::format("TrivialAugment(num_bins={}, fill={})", t.num_bins, t.fill);
  return {.text = text,
          .check =
              [=] {
                TR_CHECK(t.num_bins >= 2 && t.num_bins <= 1000,
                         "{}: num_bins is {}, must be in 2..1000", text, t.num_bins);
                check_fill(text, t.fill);
              },
          .make_step =
              [=] {
                const pixel::AugmentSpace wide{.bins = t.num_bins,
                                               .shear = 0.99f,
                                               .shift_of_331 = 0,
                                               .shift_pixels = 32,
                                               .degrees = 135,
                                               .factor = 0.99f,
                                               .posterize_bits = 6};
                return std::make_unique<AugmentStep>(1, wide, t.fill, text);
              }};
}

}  // namespace tr::data
