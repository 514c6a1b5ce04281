// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/pixel/image_tail.h"
#include "data/transforms/fused_normalization.h"
#include "data/transforms/pixel_step.h"
#include "renaissance/core/shape.h"

namespace tr::data {

/// A TransformChain prepared for images of one shape, or for pictures of any size (H = W = 0). The
/// steps are functions from UINT8 image to UINT8 image, applied one after the other to a sample
/// that stays in the cache; the last pass writes the batch. Stateless once made: all workers share
/// it, each with scratch of its own.
///
/// A horizontal flip behind which only steps stand that commute with it is left to the last pass:
/// the same bytes, one pass less. Steps whose draws change nothing are left out. Mixup and CutMix
/// are BatchMix's.
class PixelChain {
 public:
  /// @throws InvalidArgument  see TransformChain::output_shape().
  PixelChain(const TransformChain& chain, const Shape& input, DType dtype);

  /// [h, w, c]
  Shape output_shape() const;
  std::size_t output_bytes() const {
    return normalization_->out().num_bytes() * size_of(normalization_->dtype());
  }
  /// True: pictures of any size.
  bool takes_pictures() const { return !input_.is_known(); }

  // Images of one shape.
  /// Bytes of an input buffer: the pixels and the slack that steps may touch.
  std::size_t input_buffer_bytes() const { return input_.num_bytes() + kImageSlack; }
  std::size_t scratch_bytes() const { return fixed_.scratch_bytes(); }
  /// One sample. `address` is (seed, AUGMENT, epoch, sample id); `src` has input_buffer_bytes(),
  /// `scratch` scratch_bytes(), aligned to 16.
  void run(const std::uint8_t* src, void* dst, const DrawAddress& address,
           std::byte* scratch) const;
  /// The two halves of run(). First the steps: the pixels that the last pass takes, within scratch,
  /// or src.
  const std::uint8_t* run_pixels(const std::uint8_t* src, const DrawAddress& address,
                                 std::byte* scratch) const;
  void normalise(const std::uint8_t* pixels, void* dst, const DrawAddress& address) const;

  // Pictures. The scratch of one must have scratch_bytes(height, width) of the whole picture.
  /// @throws DataError  a picture of this size cannot go through the chain.
  std::size_t scratch_bytes(int height, int width) const;
  /// True: the first step may take less than a whole picture.
  bool takes_a_part() const { return !steps_.empty() && steps_.front().pixels->takes_a_part(); }
  /// What the first step takes of a picture, if a decoder may give that alone.
  /// @throws DataError  a picture of this size cannot go through the chain.
  std::optional<SourceCrop> first_crop(const DrawAddress& address, int height, int width) const;
  /// The two halves, as above.
  ImageRef run_pixels(const ImageRef& src, const DrawAddress& address, std::byte* scratch) const;
  /// From the part that first_crop() asked for.
  ImageRef run_pixels(const DecodedCrop& crop, const SourceCrop& asked, const DrawAddress& address,
                      std::byte* scratch) const;
  void normalise(const ImageRef& pixels, void* dst, const DrawAddress& address) const;

  /// Shape of the pixels that the last pass takes.
  const ImageShape& pixels_shape() const { return output_; }
  /// In place of normalise(): copies the pixels to `dst`, pixels_shape(), and tells what is left to
  /// be done to them.
  pixel::ImageTail leave(const ImageRef& pixels, std::uint8_t* dst,
                         const DrawAddress& address) const;

  /// The pixels before the normalisation, a flip that is left to it done (inspection).
  ImageRef final_pixels(const ImageRef& pixels, const DrawAddress& address,
                        std::uint8_t* mirrored) const;
  /// The rectangle of RandomErasing; height 0: none.
  pixel::EraseRect erased(const DrawAddress& address) const;
  /// What is drawn for a sample, one text a transform: "RandomCrop(28): top 2, left 0"; empty where
  /// nothing is drawn.
  std::vector<std::string> describe(const DrawAddress& address, int height, int width) const;

 private:
  struct Step {
    std::unique_ptr<PixelStep> pixels;
    std::uint32_t index = 0;  // in the chain: addresses the draws
    std::string text;
  };
  /// Bytes that an image of one size needs on its way.
  struct Sizes {
    std::size_t buffer_bytes = 0, step_bytes = 0;
    std::size_t scratch_bytes() const { return 2 * buffer_bytes + step_bytes; }
  };
  /// Where an image is on its way.
  struct Position {
    ImageRef image;
    int buffer = -1;  // of the two in scratch; -1: the caller's
    std::size_t next = 0;
  };

  void add_steps(const TransformChain& chain);
  void defer_flips();
  ImageShape last_shape(ImageShape in, Sizes& sizes) const;
  Sizes sizes_of(ImageShape picture) const;
  void run_steps(Position& at, const Sizes& sizes, const DrawAddress& address,
                 std::byte* scratch) const;
  bool is_mirrored(const DrawAddress& address, ImageShape shape) const;
  static std::uint8_t* buffer(int which, const Sizes& sizes, std::byte* scratch) {
    return reinterpret_cast<std::uint8_t*>(scratch) + std::size_t(which) * sizes.buffer_bytes;
  }

  ImageShape input_, output_;
  std::vector<Step> steps_;
  std::vector<Step> last_flips_;  // done by the normalisation
  std::optional<RandomErasing> erasing_;
  std::uint32_t erasing_index_ = 0;
  std::string text_, erasing_text_;
  std::optional<FusedNormalization> normalization_;
  Sizes fixed_;  // of input_, where that is known
};

}  // namespace tr::data
