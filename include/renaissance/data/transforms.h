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
// or touches a pixel here. Semantics against torchvision, rounding and draws: docs/transforms.md.
// Every random step draws from (seed, AUGMENT, epoch, sample id, its index in the chain), never
// from a worker's state.

/// Height and width of an image in pixels; one number is a square.
struct ImageSize {
  ImageSize(int side) : height(side), width(side) {}
  ImageSize(int height, int width) : height(height), width(width) {}
  int height, width;
  bool operator==(const ImageSize&) const = default;
};

enum class PadMode { CONSTANT, EDGE, REFLECT, SYMMETRIC };

enum class Interpolation { NEAREST, BILINEAR, BICUBIC };

/// Which part of an image Resize takes, and what it becomes.
enum class ResizeMode {
  SHORT_SIDE,  // all of it; the shorter side becomes `size`, the ratio stays (torchvision's Resize)
  SQUARE,      // the centred square of the shorter side becomes size x size (the articles')
  STRETCH      // all of it becomes `size`, which may be a rectangle
};

/// Adds `padding` pixels on all four sides. Agrees with torchvision.transforms.Pad.
struct Pad {
  explicit Pad(int padding, int fill = 0, PadMode mode = PadMode::CONSTANT)
      : padding(padding), fill(fill), mode(mode) {}
  int padding;
  int fill;  // 0..255, CONSTANT only
  PadMode mode;
};

/// Cuts a window of `size` at a uniformly drawn position; an image smaller than it is first padded
/// with zeros to `size`, evenly.
struct RandomCrop {
  explicit RandomCrop(ImageSize size) : size(size) {}
  ImageSize size;
};

/// Cuts the centred window of `size`; an image smaller than it is padded with zeros.
struct CenterCrop {
  explicit CenterCrop(ImageSize size = 224) : size(size) {}
  ImageSize size;
};

/// Scales an image: BILINEAR or BICUBIC, by default with antialiasing. A rectangle needs STRETCH.
/// Agrees with torchvision.transforms.v2.Resize on UINT8 tensors in every bit.
struct Resize {
  explicit Resize(ImageSize size = 224, ResizeMode mode = ResizeMode::SHORT_SIDE,
                  Interpolation interpolation = Interpolation::BILINEAR, bool antialias = true)
      : size(size), mode(mode), interpolation(interpolation), antialias(antialias) {}
  ImageSize size;
  ResizeMode mode;
  Interpolation interpolation;
  bool antialias;
};

/// Cuts a region of a drawn area (fraction of the image, uniform) and aspect ratio (width / height,
/// log-uniform) and scales it to `size`; ten tries, then the largest centred region of
/// an allowed ratio. Agrees with torchvision.transforms.v2.RandomResizedCrop.
struct RandomResizedCrop {
  explicit RandomResizedCrop(ImageSize size = 224, float scale_min = 0.08f, float scale_max = 1.0f,
                             float ratio_min = 3.0f / 4, float ratio_max = 4.0f / 3)
      : size(size), scale{scale_min, scale_max}, ratio{ratio_min, ratio_max} {}
  RandomResizedCrop(ImageSize size, Range scale, Range ratio = {3.0f / 4, 4.0f / 3},
                    Interpolation interpolation = Interpolation::BILINEAR, bool antialias = true)
      : size(size),
        scale(scale),
        ratio(ratio),
        interpolation(interpolation),
        antialias(antialias) {}
  ImageSize size;
  Range scale;
  Range ratio;
  Interpolation interpolation = Interpolation::BILINEAR;
  bool antialias = true;
};

/// RandomResizedCrop made cheap, as the articles have it: the area is drawn log-uniformly, so that
/// small regions are more frequent, and scaled without antialiasing.
struct FastRandomResizedCrop {
  explicit FastRandomResizedCrop(ImageSize size = 224, float scale_min = 0.08f,
                                 float scale_max = 1.0f, float ratio_min = 3.0f / 4,
                                 float ratio_max = 4.0f / 3)
      : size(size), scale{scale_min, scale_max}, ratio{ratio_min, ratio_max} {}
  FastRandomResizedCrop(ImageSize size, Range scale, Range ratio = {3.0f / 4, 4.0f / 3})
      : size(size), scale(scale), ratio(ratio) {}
  ImageSize size;
  Range scale;
  Range ratio;
};

/// Mirrors left and right with probability `p`.
struct RandomHorizontalFlip {
  explicit RandomHorizontalFlip(float p = 0.5f) : p(p) {}
  float p;
};

/// Mirrors top and bottom with probability `p`.
struct RandomVerticalFlip {
  explicit RandomVerticalFlip(float p = 0.5f) : p(p) {}
  float p;
};

/// Brightness, contrast, saturation (factors in [max(0, 1 - x), 1 + x]) and hue (turns in [-h, h],
/// h <= 0.5), in a drawn order. Images of one channel keep saturation and hue.
struct ColorJitter {
  explicit ColorJitter(float brightness = 0, float contrast = 0, float saturation = 0,
                       float hue = 0)
      : brightness(brightness), contrast(contrast), saturation(saturation), hue(hue) {}
  float brightness, contrast, saturation, hue;
};

/// With probability `p` all three channels become the luma.
struct RandomGrayscale {
  explicit RandomGrayscale(float p = 0.1f) : p(p) {}
  float p;
};

/// With probability `p` every channel is stretched to 0..255.
struct RandomAutocontrast {
  explicit RandomAutocontrast(float p = 0.5f) : p(p) {}
  float p;
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

/// Turns, moves, scales and shears about the image's centre; outside is `fill`. Drawn uniformly:
/// an angle from [-degrees, degrees]; whole pixels up to translate.low of the width and
/// translate.high of the height, both ways; a factor from `scale`; angles of shear in degrees.
/// Agrees with torchvision.transforms.RandomAffine, whose default is NEAREST.
struct RandomAffine {
  explicit RandomAffine(float degrees, Range translate = {0, 0}, Range scale = {1, 1},
                        Range shear_x = {0, 0}, Range shear_y = {0, 0})
      : degrees(degrees), translate(translate), scale(scale), shear_x(shear_x), shear_y(shear_y) {}
  RandomAffine& with_fill(int value) { return fill = value, *this; }
  RandomAffine& with_interpolation(Interpolation kind) { return interpolation = kind, *this; }
  float degrees;
  Range translate;
  Range scale;
  Range shear_x, shear_y;
  int fill = 0;
  Interpolation interpolation = Interpolation::BILINEAR;
};

/// Blurs with a Gaussian whose deviation in pixels is drawn uniformly from [sigma_min, sigma_max];
/// edges are mirrored. `kernel_size` is odd; 0: 2 ceil(3 sigma_max) + 1.
struct GaussianBlur {
  explicit GaussianBlur(float sigma_min = 0.1f, float sigma_max = 2.0f, int kernel_size = 0)
      : sigma_min(sigma_min), sigma_max(sigma_max), kernel_size(kernel_size) {}
  float sigma_min, sigma_max;
  int kernel_size;
};

/// Adds a normally distributed number to every value of every channel, in levels of 255, and cuts
/// the sum to 0..255.
struct GaussianNoise {
  explicit GaussianNoise(float mean = 0.0f, float std = 25.5f) : mean(mean), std(std) {}
  float mean, std;
};

/// `num_ops` operations in a row, each drawn from torchvision's 14, with strength `magnitude` of
/// `num_bins`. Agrees with torchvision.transforms.RandAugment, NEAREST.
struct RandAugment {
  explicit RandAugment(int num_ops = 2, int magnitude = 9, int num_bins = 31, int fill = 0)
      : num_ops(num_ops), magnitude(magnitude), num_bins(num_bins), fill(fill) {}
  int num_ops, magnitude, num_bins;
  int fill;
};

/// One operation of a drawn strength. Agrees with torchvision.transforms.TrivialAugmentWide,
/// NEAREST.
struct TrivialAugment {
  explicit TrivialAugment(int num_bins = 31, int fill = 0) : num_bins(num_bins), fill(fill) {}
  int num_bins;
  int fill;
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

/// Of a whole training batch, after everything else: x_i = lambda x_i + (1 - lambda) x_(i-1), the
/// labels alike, which cross entropy then takes (field "soft_label"); lambda ~ Beta(alpha, alpha),
/// one a batch. Of the chain's Mixup and CutMix a batch gets one, each with probability
/// p / max(1, sum of their p), or none. Source: Zhang et al. 2018, arXiv:1710.09412. Agrees with
/// torchvision.transforms.v2.MixUp, and with RandomChoice of several.
struct Mixup {
  explicit Mixup(float alpha = 1.0f, float p = 1.0f) : alpha(alpha), p(p) {}
  float alpha;
  float p;
};

/// Of a whole training batch, after everything else: a rectangle of x_i is taken from x_(i-1), its
/// area 1 - lambda of the image before it is cut at the edges; the labels are mixed by the area
/// that is left. `p` as that of Mixup. Source: Yun et al. 2019, arXiv:1905.04899. Agrees with
/// torchvision.transforms.v2.CutMix.
struct CutMix {
  explicit CutMix(float alpha = 1.0f, float p = 1.0f) : alpha(alpha), p(p) {}
  float alpha;
  float p;
};

/// One step of a chain. How one is added: docs/adding-a-transform.md.
using Transform =
    std::variant<Pad, RandomCrop, CenterCrop, Resize, RandomResizedCrop, FastRandomResizedCrop,
                 RandomHorizontalFlip, RandomVerticalFlip, ColorJitter, RandomGrayscale,
                 RandomAutocontrast, RandomRotation, RandomScale, RandomAffine, GaussianBlur,
                 GaussianNoise, RandAugment, TrivialAugment, RandomErasing, Mixup, CutMix>;

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
  int output_channels = 0;  // 0: those of the images; more: zeros behind them

  /// Parameters, order and normalisation, without knowing an image. Steps are done in the user's
  /// order; RandomErasing acts after the normalisation and Mixup, CutMix on whole batches, so what
  /// stands behind them must do so too.
  /// @throws InvalidArgument  naming the step and its value, or the two steps that cannot stand in
  /// this order.
  TR_API void validate() const;
  /// Shape of the result for images of shape `input` [H, W, C]; H = W = 0: pictures of any size, of
  /// which some step must make one size. Validates first.
  /// @throws InvalidArgument  a step does not fit, the channels do not fit the normalisation, or
  /// the size is not fixed or not output_height x output_width.
  TR_API Shape output_shape(const Shape& input) const;
  /// True if some step draws numbers.
  TR_API bool is_random() const;
  /// "Pad(2), RandomCrop(28), Normalize(MNIST) -> 28x28"
  TR_API std::string str() const;
};

}  // namespace tr
