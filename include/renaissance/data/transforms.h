// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/core/shape.h"
#include "renaissance/core/types.h"

namespace tr {

// The steps that an image takes from the data set to the network. Each is a plain value; none draws
// or touches a pixel here. Semantics, rounding and draws: docs/data.md. Every random step draws
// from (seed, AUGMENT, epoch, sample id, its index in the chain), never from a worker's state.

enum class PadMode { CONSTANT, EDGE, REFLECT, SYMMETRIC };

/// Adds `padding` pixels on all four sides. Agrees with torchvision.transforms.Pad.
struct Pad {
  explicit Pad(int padding, int fill = 0, PadMode mode = PadMode::CONSTANT)
      : padding(padding), fill(fill), mode(mode) {}
  int padding;
  int fill;  // 0..255, CONSTANT only
  PadMode mode;
};

/// Cuts a square of `size` at a uniformly drawn position; an image smaller than it is first padded
/// with zeros to `size`, evenly.
struct RandomCrop {
  explicit RandomCrop(int size) : size(size) {}
  int size;
};

/// Cuts the centred square of `size`; an image smaller than it is padded with zeros.
struct CenterCrop {
  explicit CenterCrop(int size = 224) : size(size) {}
  int size;
};

/// Scales the centred square of the shorter side to `size`, bilinear.
struct Resize {
  explicit Resize(int size = 224) : size(size) {}
  int size;
};

/// Cuts a region of a drawn area (fraction of the image) and aspect ratio (log-uniform) and scales
/// it to a square of `size`. Agrees with torchvision.transforms.RandomResizedCrop.
struct RandomResizedCrop {
  explicit RandomResizedCrop(int size = 224, float scale_min = 0.08f, float scale_max = 1.0f,
                             float ratio_min = 3.0f / 4, float ratio_max = 4.0f / 3)
      : size(size), scale{scale_min, scale_max}, ratio{ratio_min, ratio_max} {}
  RandomResizedCrop(int size, Range scale, Range ratio = {3.0f / 4, 4.0f / 3})
      : size(size), scale(scale), ratio(ratio) {}
  int size;
  Range scale;
  Range ratio;
};

/// Mirrors left and right with probability `p`.
struct RandomHorizontalFlip {
  explicit RandomHorizontalFlip(float p = 0.5f) : p(p) {}
  float p;
};

/// Brightness, contrast, saturation (factors in [max(0, 1 - x), 1 + x]) and hue (turns in [-h, h],
/// h <= 0.5), in a drawn order.
struct ColorJitter {
  explicit ColorJitter(float brightness = 0, float contrast = 0, float saturation = 0,
                       float hue = 0)
      : brightness(brightness), contrast(contrast), saturation(saturation), hue(hue) {}
  float brightness, contrast, saturation, hue;
};

/// Turns by an angle drawn from [-degrees, degrees] about the image's centre, bilinear; outside is
/// `fill`.
struct RandomRotation {
  explicit RandomRotation(float degrees = 30.0f, int fill = 0) : degrees(degrees), fill(fill) {}
  float degrees;
  int fill;
};

/// Scales width and height by two ratios drawn independently from [min, max] and keeps the size: a
/// larger image loses its margin, a smaller one gets a margin of zeros, both centred.
struct RandomScale {
  RandomScale(float min, float max) : min(min), max(max) {}
  float min, max;
};

/// With probability `p` sets a rectangle to 0 after normalisation: area as a fraction of the image
/// in `scale`, aspect ratio (height / width, log-uniform) in `ratio`; ten tries, else nothing. One
/// rectangle for all channels. Agrees with torchvision.transforms.RandomErasing(value=0).
struct RandomErasing {
  explicit RandomErasing(float p = 0.5f, Range scale = {0.02f, 0.33f}, Range ratio = {0.3f, 3.3f})
      : p(p), scale(scale), ratio(ratio) {}
  float p;
  Range scale;
  Range ratio;
};

/// One step of a chain.
using Transform =
    std::variant<Pad, RandomCrop, CenterCrop, Resize, RandomResizedCrop, RandomHorizontalFlip,
                 ColorJitter, RandomRotation, RandomScale, RandomErasing>;

/// "RandomRotation(20, fill=0)"
TR_API std::string to_string(const Transform& transform);
/// True if the step draws numbers.
TR_API bool is_random(const Transform& transform);

/// y = (x / 255 - mean[c]) / std[c], one entry per channel, as a 256-entry table per channel.
struct Normalization {
  NormMode mode = NormMode::NO_NORM;
  std::vector<float> mean;  // not empty: used instead of the preset, with std of the same length
  std::vector<float> std;

  Normalization() = default;
  Normalization(NormMode mode) : mode(mode) {}  // NOLINT: implicit, a preset is a normalisation
  Normalization(std::vector<float> mean, std::vector<float> std)
      : mean(std::move(mean)), std(std::move(std)) {}
};

/// Way of the image field from the data set to the batch: UINT8 [H, W, C] in, image_dtype [h, w, C]
/// out.
struct TransformChain {
  std::vector<Transform> transforms;
  Normalization normalization;
  int output_height = 0;  // 0: whatever the steps give; else they must give this
  int output_width = 0;

  /// Parameters, order (RandomErasing last) and normalisation, without knowing an image.
  /// @throws InvalidArgument  naming the step and its value.  @throws Unsupported  a step that has
  /// no kernel yet.
  TR_API void validate() const;
  /// Shape of the result for images of shape `input` [H, W, C]; validates first.
  /// @throws InvalidArgument  a step does not fit, the channels do not fit the normalisation, or
  /// the size is
  ///         not output_height x output_width.
  TR_API Shape output_shape(const Shape& input) const;
  /// True if some step draws numbers.
  TR_API bool is_random() const;
  /// "Pad(2), RandomCrop(28), Normalize(MNIST) -> 28x28"
  TR_API std::string str() const;
};

}  // namespace tr
