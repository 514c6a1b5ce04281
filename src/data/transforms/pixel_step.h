// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/pixel/uniform.h"
#include "renaissance/data/transforms.h"

namespace tr::data {

constexpr int kMaxSide = 8192;  // of an image, in pixels: the reach of the fixed-point coordinates
constexpr int kMaxChannels = 64;
constexpr std::size_t kMaxSteps = 64;  // of a chain
// Bytes after the last pixel of every image buffer that a step may read, though never use: one
// pixel.
constexpr std::size_t kImageSlack = kMaxChannels;

/// Interleaved UINT8 pixels [height, width, channels].
struct ImageShape {
  int height = 0, width = 0, channels = 0;
  std::size_t row_bytes() const { return std::size_t(width) * std::size_t(channels); }
  std::size_t num_bytes() const { return std::size_t(height) * row_bytes(); }
};

/// One step from pixels to pixels, prepared for images of one shape. Stateless: workers share it.
class PixelStep {
 public:
  PixelStep(ImageShape in, ImageShape out, std::size_t scratch_bytes = 0)
      : in_(in), out_(out), scratch_bytes_(scratch_bytes) {}
  virtual ~PixelStep() = default;

  /// `src` and `dst` do not overlap and have kImageSlack behind them; `scratch` has
  /// scratch_bytes().
  virtual void apply(const std::uint8_t* src, std::uint8_t* dst, const pixel::StepDraws& draws,
                     std::byte* scratch) const = 0;

  const ImageShape& in() const { return in_; }
  const ImageShape& out() const { return out_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  ImageShape in_, out_;
  std::size_t scratch_bytes_;
};

// One function a transform, each in its own file. They check what depends on the image's shape.
// @throws InvalidArgument  the step cannot take images of shape `in`.
std::unique_ptr<PixelStep> make_step(const Pad& pad, ImageShape in);
std::unique_ptr<PixelStep> make_step(const RandomCrop& crop, ImageShape in);
std::unique_ptr<PixelStep> make_step(const RandomRotation& rotation, ImageShape in);
std::unique_ptr<PixelStep> make_step(const RandomScale& scale, ImageShape in);

}  // namespace tr::data
