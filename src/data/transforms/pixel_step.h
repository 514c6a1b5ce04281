// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/pixel/uniform.h"
#include "renaissance/data/transforms.h"

namespace tr::data {

constexpr int kMaxSide = 8192;  // of an image, in pixels: the reach of the fixed-point coordinates
constexpr int kMaxPictureSide =
    65535;  // of pictures that a step cuts or scales before others see them
constexpr int kMaxChannels = 64;
constexpr std::size_t kMaxSteps = 64;  // of a chain
// Bytes after the last pixel of every image buffer that a step may read, though never use.
constexpr std::size_t kImageSlack = 64;

/// Interleaved UINT8 pixels [height, width, channels]. A side of 0: not known before the picture is
/// there.
struct ImageShape {
  int height = 0, width = 0, channels = 0;
  std::size_t row_bytes() const { return std::size_t(width) * std::size_t(channels); }
  std::size_t num_bytes() const { return std::size_t(height) * row_bytes(); }
  bool is_known() const { return height > 0 && width > 0; }
  bool operator==(const ImageShape&) const = default;
};

/// Pixels somewhere in memory; row y begins at pixels + y * stride. kImageSlack bytes behind the
/// last row may be read.
struct ImageRef {
  const std::uint8_t* pixels = nullptr;
  ImageShape shape;
  std::size_t stride = 0;  // bytes

  ImageRef() = default;
  ImageRef(const std::uint8_t* pixels, ImageShape shape)
      : pixels(pixels), shape(shape), stride(shape.row_bytes()) {}
  ImageRef(const std::uint8_t* pixels, ImageShape shape, std::size_t stride)
      : pixels(pixels), shape(shape), stride(stride) {}
  const std::uint8_t* row(int y) const { return pixels + std::size_t(y) * stride; }
  ImageRef part(int top, int left, int height, int width) const {
    return {row(top) + std::size_t(left) * std::size_t(shape.channels),
            {height, width, shape.channels},
            stride};
  }
};

/// The rectangle of a picture that a chain's first step looks at, and the size it is scaled to
/// (0: not scaled): what a decoder needs to decode no more than that.
struct SourceCrop {
  int top = 0, left = 0, height = 0, width = 0;
  int target_height = 0, target_width = 0;
  int picture_height = 0, picture_width = 0;  // of the whole picture; set by PixelChain
  bool operator==(const SourceCrop&) const = default;
};

/// Such a rectangle, decoded. Decoded smaller, its edges may lie within a pixel: they are given in
/// eighths of a pixel of `image`.
struct DecodedCrop {
  ImageRef image;
  int top_eighths = 0, left_eighths = 0, height_eighths = 0, width_eighths = 0;

  /// The image is the crop and nothing else.
  explicit DecodedCrop(const ImageRef& image)
      : image(image),
        height_eighths(8 * image.shape.height),
        width_eighths(8 * image.shape.width) {}
  DecodedCrop(const ImageRef& image, int top, int left, int height, int width)
      : image(image),
        top_eighths(top),
        left_eighths(left),
        height_eighths(height),
        width_eighths(width) {}
};

/// One step from pixels to pixels. Stateless: workers share it, for images of any size.
class PixelStep {
 public:
  virtual ~PixelStep() = default;

  /// Of the result; sides that are not known stay so, unless the step gives them.
  /// @throws InvalidArgument  the step cannot take images of shape `in`.
  virtual ImageShape out_shape(ImageShape in) const { return in; }
  virtual std::size_t scratch_bytes(ImageShape) const { return 0; }
  /// Longest side of an image that apply() takes.
  virtual int max_side() const { return kMaxSide; }

  /// `dst` is [out_shape, packed] and does not overlap with `src`, unless the step works in place;
  /// it has kImageSlack behind it; `scratch` has scratch_bytes() and is aligned to 64.
  virtual void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
                     std::byte* scratch) const = 0;

  /// True: what these draws give is the image itself, so that apply() may be left out.
  virtual bool is_identity(const pixel::StepDraws&, ImageShape) const { return false; }
  /// True: `dst` may be `src`, which is packed then.
  virtual bool works_in_place() const { return false; }
  /// True: mirroring left and right before the step or behind it gives the same bytes.
  virtual bool commutes_with_mirror() const { return false; }

  /// True: the step mirrors left and right wherever is_identity() does not say that it does not.
  virtual bool mirrors() const { return false; }
  /// What is drawn for an image, for people: "angle -12.5"; empty if nothing is.
  virtual std::string describe(const pixel::StepDraws&, ImageShape) const { return {}; }

  /// True: source_crop() may give less than the whole picture.
  virtual bool takes_a_part() const { return false; }
  /// The part of a picture that apply() would read, if a decoder may give no more than that.
  virtual std::optional<SourceCrop> source_crop(const pixel::StepDraws&, ImageShape) const {
    return std::nullopt;
  }
  /// apply() on that part alone, `asked` being what source_crop() gave.
  virtual void apply_crop(const DecodedCrop& crop, const SourceCrop& asked, std::uint8_t* dst,
                          std::byte* scratch) const;
};

}  // namespace tr::data
