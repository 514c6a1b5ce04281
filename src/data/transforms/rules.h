// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "data/transforms/pixel_step.h"

namespace tr::data {

/// When a transform acts. The order of a chain never goes back.
enum class ChainStage { PIXELS, NORMALIZED, BATCH };

/// What the library knows of a transform: made by the transform's own file.
struct TransformRule {
  std::string text;  // "Pad(2, fill=0, CONSTANT)"
  bool is_random = true;
  ChainStage stage = ChainStage::PIXELS;
  std::function<void()> check;  // throws InvalidArgument, naming the parameter and its value
  std::function<std::unique_ptr<PixelStep>()> make_step;  // stage PIXELS
};

// One line a transform: the whole registration.
TransformRule rule_of(const Pad& t);
TransformRule rule_of(const RandomCrop& t);
TransformRule rule_of(const CenterCrop& t);
TransformRule rule_of(const Resize& t);
TransformRule rule_of(const RandomResizedCrop& t);
TransformRule rule_of(const FastRandomResizedCrop& t);
TransformRule rule_of(const RandomHorizontalFlip& t);
TransformRule rule_of(const RandomVerticalFlip& t);
TransformRule rule_of(const ColorJitter& t);
TransformRule rule_of(const RandomGrayscale& t);
TransformRule rule_of(const RandomAutocontrast& t);
TransformRule rule_of(const RandomRotation& t);
TransformRule rule_of(const RandomScale& t);
TransformRule rule_of(const RandomAffine& t);
TransformRule rule_of(const GaussianBlur& t);
TransformRule rule_of(const GaussianNoise& t);
TransformRule rule_of(const RandAugment& t);
TransformRule rule_of(const TrivialAugment& t);
TransformRule rule_of(const RandomErasing& t);
TransformRule rule_of(const Mixup& t);
TransformRule rule_of(const CutMix& t);
TransformRule rule_of(const Transform& t);

/// The step of a transform from pixels to pixels, its parameters checked.
std::unique_ptr<PixelStep> make_step(const Transform& t);

// What parameters must be; `who` is the transform's text.
// @throws InvalidArgument  with the value and what was expected.
void check_size(const std::string& who, ImageSize size);
void check_fill(const std::string& who, int fill);
void check_probability(const std::string& who, float p);
void check_area(const std::string& who, Range scale);
void check_ratio(const std::string& who, Range ratio);
void check_scaling(const std::string& who, Interpolation interpolation);
void check_between(const std::string& who, const char* what, float value, float low, float high);

}  // namespace tr::data
