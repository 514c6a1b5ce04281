// SPDX-License-Identifier: Apache-2.0
#include "renaissance/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "core/check.h"
#include "data/transforms/chain.h"

namespace tr {
namespace {

template <typename... F>
struct Overload : F... {
  using F::operator()...;
};
template <typename... F>
Overload(F...) -> Overload<F...>;  // clang 16 does not deduce aggregates

std::string_view name_of(PadMode mode) {
  constexpr std::string_view kNames[] = {"CONSTANT", "EDGE", "REFLECT", "SYMMETRIC"};
  return kNames[int(mode)];
}

std::string_view name_of(NormMode mode) {
  constexpr std::string_view kNames[] = {"NO_NORM", "MLPERF", "IMAGENET", "MNIST", "CIFAR"};
  return kNames[int(mode)];
}

void check_side(const Transform& t, int size) {
  TR_CHECK(size >= 1 && size <= data::kMaxSide, "{}: size is {}, must be in 1..{}", to_string(t),
           size, data::kMaxSide);
}

void check_fill(const Transform& t, int fill) {
  TR_CHECK(fill >= 0 && fill <= 255, "{}: fill is {}, must be in 0..255", to_string(t), fill);
}

void check_probability(const Transform& t, float p) {
  TR_CHECK(p >= 0 && p <= 1, "{}: p is {}, must be in [0, 1]", to_string(t), p);
}

void check_area(const Transform& t, Range scale) {
  TR_CHECK(
      scale.low > 0 && scale.low <= scale.high && scale.high <= 1,
      "{}: scale is [{}, {}], must satisfy 0 < low <= high <= 1 (fractions of the image's area)",
      to_string(t), scale.low, scale.high);
}

void check_ratio(const Transform& t, Range ratio) {
  TR_CHECK(ratio.low > 0 && ratio.low <= ratio.high && std::isfinite(ratio.high),
           "{}: ratio is [{}, {}], must satisfy 0 < low <= high", to_string(t), ratio.low,
           ratio.high);
}

void check_strength(const Transform& t, const char* what, float value, float limit) {
  TR_CHECK(value >= 0 && value <= limit, "{}: {} is {}, must be in [0, {}]", to_string(t), what,
           value, limit);
}

void check_parameters(const Transform& t) {
  std::visit(Overload{[&](const Pad& s) {
                        TR_CHECK(s.padding >= 0 && s.padding <= data::kMaxSide,
                                 "{}: padding is {}, must be in 0..{}", to_string(t), s.padding,
                                 data::kMaxSide);
                        check_fill(t, s.fill);
                      },
                      [&](const RandomCrop& s) { check_side(t, s.size); },
                      [&](const CenterCrop& s) { check_side(t, s.size); },
                      [&](const Resize& s) { check_side(t, s.size); },
                      [&](const RandomResizedCrop& s) {
                        check_side(t, s.size);
                        check_area(t, s.scale);
                        check_ratio(t, s.ratio);
                      },
                      [&](const RandomHorizontalFlip& s) { check_probability(t, s.p); },
                      [&](const ColorJitter& s) {
                        check_strength(t, "brightness", s.brightness, 1e4f);
                        check_strength(t, "contrast", s.contrast, 1e4f);
                        check_strength(t, "saturation", s.saturation, 1e4f);
                        check_strength(t, "hue", s.hue, 0.5f);
                      },
                      [&](const RandomRotation& s) {
                        TR_CHECK(s.degrees >= 0 && s.degrees <= 360,
                                 "{}: degrees is {}, must be in [0, 360]", to_string(t), s.degrees);
                        check_fill(t, s.fill);
                      },
                      [&](const RandomScale& s) {
                        TR_CHECK(s.min > 0 && s.min <= s.max && s.max <= 16,
                                 "{}: the ratios are [{}, {}], must satisfy 0 < min <= max <= 16",
                                 to_string(t), s.min, s.max);
                      },
                      [&](const RandomErasing& s) {
                        check_probability(t, s.p);
                        check_area(t, s.scale);
                        check_ratio(t, s.ratio);
                      }},
             t);
}

std::string list_of(std::span<const float> values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string to_string(const Normalization& n) {
  if (n.mean.empty()) return fmt::format("Normalize({})", name_of(n.mode));
  return fmt::format("Normalize(mean={}, std={})", list_of(n.mean), list_of(n.std));
}

void check_normalization(const Normalization& n) {
  TR_CHECK(n.mean.size() == n.std.size(),
           "normalization: {} means and {} standard deviations, "
           "expected as many of one as of the other",
           n.mean.size(), n.std.size());
  for (const float mean : n.mean) {
    TR_CHECK(std::isfinite(mean), "normalization: a mean is {}, must be finite", mean);
  }
  for (const float std : n.std) {
    TR_CHECK(std > 0 && std::isfinite(std),
             "normalization: a standard deviation is {}, must be positive", std);
  }
}

}  // namespace

std::string to_string(const Transform& transform) {
  return std::visit(
      Overload{
          [](const Pad& s) {
            return fmt::format("Pad({}, fill={}, {})", s.padding, s.fill, name_of(s.mode));
          },
          [](const RandomCrop& s) { return fmt::format("RandomCrop({})", s.size); },
          [](const CenterCrop& s) { return fmt::format("CenterCrop({})", s.size); },
          [](const Resize& s) { return fmt::format("Resize({})", s.size); },
          [](const RandomResizedCrop& s) {
            return fmt::format("RandomResizedCrop({}, scale=[{}, {}], ratio=[{}, {}])", s.size,
                               s.scale.low, s.scale.high, s.ratio.low, s.ratio.high);
          },
          [](const RandomHorizontalFlip& s) {
            return fmt::format("RandomHorizontalFlip({})", s.p);
          },
          [](const ColorJitter& s) {
            return fmt::format("ColorJitter({}, {}, {}, {})", s.brightness, s.contrast,
                               s.saturation, s.hue);
          },
          [](const RandomRotation& s) {
            return fmt::format("RandomRotation({}, fill={})", s.degrees, s.fill);
          },
          [](const RandomScale& s) { return fmt::format("RandomScale({}, {})", s.min, s.max); },
          [](const RandomErasing& s) {
            return fmt::format("RandomErasing({}, scale=[{}, {}], ratio=[{}, {}])", s.p,
                               s.scale.low, s.scale.high, s.ratio.low, s.ratio.high);
          }},
      transform);
}

bool is_random(const Transform& transform) {
  return std::visit(
      Overload{[](const Pad&) { return false; }, [](const CenterCrop&) { return false; },
               [](const Resize&) { return false; }, [](const auto&) { return true; }},
      transform);
}

bool TransformChain::is_random() const {
  return std::any_of(transforms.begin(), transforms.end(),
                     [](const Transform& t) { return tr::is_random(t); });
}

void TransformChain::validate() const {
  TR_CHECK(output_height >= 0 && output_width >= 0,
           "transforms: the output size is {}x{}, must not be negative", output_height,
           output_width);
  TR_CHECK(transforms.size() <= data::kMaxSteps, "transforms: {} steps, at most {} are possible",
           transforms.size(), data::kMaxSteps);
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    check_parameters(transforms[i]);
    const bool erases = std::holds_alternative<RandomErasing>(transforms[i]);
    TR_CHECK(!erases || i + 1 == transforms.size(),
             "{}: step {} of {}, must be the last one (it acts after the normalisation)",
             to_string(transforms[i]), i + 1, transforms.size());
  }
  check_normalization(normalization);
  for (const Transform& t : transforms) {
    if (!data::has_kernel(t)) {
      throw_as<Unsupported>("{}: this transform has no kernel in this version yet", to_string(t));
    }
  }
}

Shape TransformChain::output_shape(const Shape& input) const {
  validate();
  return data::PixelChain(*this, input, DType::FP32).output_shape();
}

std::string TransformChain::str() const {
  std::string text;
  for (const Transform& t : transforms) text += to_string(t) + ", ";
  text += to_string(normalization);
  if (output_height > 0 || output_width > 0)
    text += fmt::format(" -> {}x{}", output_height, output_width);
  return text;
}

}  // namespace tr
