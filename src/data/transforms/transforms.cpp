// SPDX-License-Identifier: Apache-2.0
#include "renaissance/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "core/check.h"
#include "data/transforms/chain.h"
#include "data/transforms/rules.h"

namespace tr {
namespace {

std::string_view name_of(NormMode mode) {
  constexpr std::string_view kNames[] = {"NO_NORM", "MLPERF", "IMAGENET", "MNIST", "CIFAR"};
  return kNames[int(mode)];
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

/// What acts later in a sample's way cannot stand before what acts earlier, and one erasing is
/// possible.
void check_order(const Transform& first, const Transform& second) {
  constexpr const char* kWhen[] = {"on pixels", "after the normalisation", "on whole batches"};
  const data::TransformRule a = data::rule_of(first), b = data::rule_of(second);
  TR_CHECK(a.stage <= b.stage,
           "{} acts {}: {}, which acts {}, cannot stand behind it; put it before", a.text,
           kWhen[int(a.stage)], b.text, kWhen[int(b.stage)]);
  TR_CHECK(a.stage != b.stage || a.stage != data::ChainStage::NORMALIZED,
           "{} and {}: only one transform that acts {} is possible", a.text, b.text,
           kWhen[int(a.stage)]);
}

}  // namespace

std::string to_string(const Transform& transform) { return data::rule_of(transform).text; }

bool is_random(const Transform& transform) { return data::rule_of(transform).is_random; }

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
  const Transform* before = nullptr;
  for (const Transform& transform : transforms) {
    data::rule_of(transform).check();
    if (before != nullptr) check_order(*before, transform);
    before = &transform;
  }
  check_normalization(normalization);
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
  if (output_channels > 0) text += fmt::format(", {} channels", output_channels);
  return text;
}

}  // namespace tr
