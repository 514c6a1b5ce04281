// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/check.h"
#include "core/pixel/flip.h"
#include "data/transforms/level_pass.h"
#include "data/transforms/rules.h"
#include "data/transforms/window.h"

namespace tr::data {
namespace {

class AutocontrastStep final : public PixelStep {
 public:
  explicit AutocontrastStep(float p) : p_(p) {}

  std::size_t scratch_bytes(ImageShape in) const override { return 256 * std::size_t(in.channels); }
  bool commutes_with_mirror() const override { return true; }
  bool is_identity(const pixel::StepDraws& draws, ImageShape) const override {
    return !pixel::draw_chance(draws, p_);
  }
  std::string describe(const pixel::StepDraws& draws, ImageShape) const override {
    return pixel::draw_chance(draws, p_) ? "stretched" : "not stretched";
  }
  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte* scratch) const override {
    if (pixel::draw_chance(draws, p_)) return stretch_levels(src, dst, scratch);
    copy_window(src, 0, 0, src.shape, dst);
  }

 private:
  float p_;
};

}  // namespace

TransformRule rule_of(const RandomAutocontrast& t) {
  const std::string text = fmt::format("RandomAutocontrast({})", t.p);
  return {.text = text,
          .check = [=] { check_probability(text, t.p); },
          .make_step = [=] { return std::make_unique<AutocontrastStep>(t.p); }};
}

}  // namespace tr::data
