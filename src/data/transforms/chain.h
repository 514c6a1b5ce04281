// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/transforms/fused_normalization.h"
#include "data/transforms/pixel_step.h"
#include "renaissance/core/shape.h"

namespace tr::data {

/// True if the step can run in this version.
bool has_kernel(const Transform& transform);

/// A TransformChain prepared for images of one shape. The steps are functions from UINT8 image to
/// UINT8 image, applied one after the other to a sample that stays in the first-level cache; the
/// last pass writes the batch. Stateless once made: all workers share it, each with scratch of its
/// own.
class PixelChain {
 public:
  /// @throws InvalidArgument, Unsupported  see TransformChain::output_shape().
  PixelChain(const TransformChain& chain, const Shape& input, DType dtype);

  /// [h, w, c]
  Shape output_shape() const;
  std::size_t output_bytes() const {
    return output_.num_bytes() * size_of(normalization_->dtype());
  }
  /// Bytes of an input buffer: the pixels and the slack that steps may touch.
  std::size_t input_buffer_bytes() const { return input_.num_bytes() + kImageSlack; }
  std::size_t scratch_bytes() const { return 2 * buffer_bytes_ + step_scratch_bytes_; }

  /// One sample. `address` is (seed, AUGMENT, epoch, sample id); `src` has input_buffer_bytes(),
  /// `scratch` scratch_bytes(), aligned to 16.
  void run(const std::uint8_t* src, void* dst, const DrawAddress& address,
           std::byte* scratch) const;
  /// The two halves of run(). First the pixels before the normalisation: the last step's buffer
  /// within scratch, or src.
  const std::uint8_t* run_pixels(const std::uint8_t* src, const DrawAddress& address,
                                 std::byte* scratch) const;
  void normalise(const std::uint8_t* pixels, void* dst, const DrawAddress& address) const;

 private:
  ImageShape input_, output_;
  std::vector<std::unique_ptr<PixelStep>> steps_;
  std::optional<FusedNormalization> normalization_;
  std::uint32_t erasing_index_ = 0;
  std::size_t buffer_bytes_ = 0, step_scratch_bytes_ = 0;
};

}  // namespace tr::data
