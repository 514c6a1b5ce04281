// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/rules.h"

#include <cmath>

#include "core/check.h"
#include "data/transforms/words.h"

namespace tr::data {

TransformRule rule_of(const Transform& t) {
  return std::visit([](const auto& transform) { return rule_of(transform); }, t);
}

std::unique_ptr<PixelStep> make_step(const Transform& t) {
  const TransformRule rule = rule_of(t);
  rule.check();
  TR_ASSERT(rule.make_step);
  return rule.make_step();
}

void PixelStep::apply_crop(const DecodedCrop&, const SourceCrop&, std::uint8_t*, std::byte*) const {
  TR_ASSERT(!"apply_crop() of a step that gave no source_crop()");
}

void check_size(const std::string& who, ImageSize size) {
  const auto is_side = [](int side) { return side >= 1 && side <= kMaxSide; };
  TR_CHECK(is_side(size.height) && is_side(size.width), "{}: size is {}, must be in 1..{}", who,
           text_of(size), kMaxSide);
}

void check_fill(const std::string& who, int fill) {
  TR_CHECK(fill >= 0 && fill <= 255, "{}: fill is {}, must be in 0..255", who, fill);
}

void check_probability(const std::string& who, float p) {
  TR_CHECK(p >= 0 && p <= 1, "{}: p is {}, must be in [0, 1]", who, p);
}

void check_area(const std::string& who, Range scale) {
  TR_CHECK(
      scale.low > 0 && scale.low <= scale.high && scale.high <= 1,
      "{}: scale is [{}, {}], must satisfy 0 < low <= high <= 1 (fractions of the image's area)",
      who, scale.low, scale.high);
}

void check_ratio(const std::string& who, Range ratio) {
  TR_CHECK(ratio.low > 0 && ratio.low <= ratio.high && std::isfinite(ratio.high),
           "{}: ratio is [{}, {}], must satisfy 0 < low <= high", who, ratio.low, ratio.high);
}

void check_scaling(const std::string& who, Interpolation interpolation) {
  TR_CHECK(interpolation != Interpolation::NEAREST,
           "{}: interpolation is NEAREST, must be BILINEAR or BICUBIC", who);
}

void check_between(const std::string& who, const char* what, float value, float low, float high) {
  TR_CHECK(value >= low && value <= high, "{}: {} is {}, must be in [{}, {}]", who, what, value,
           low, high);
}

}  // namespace tr::data
