// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/pixel/mix.h"
#include "data/transforms/pixel_step.h"
#include "renaissance/core/dtype.h"

namespace tr::data {

/// Mixup or CutMix of a micro-batch whose images stand in their slot: image i is mixed with image
/// i - 1, the first with the last, as torchvision's v2 transforms do. What is drawn depends on the
/// batch's place in the epoch alone; with whom an image is mixed, on how ranks and micro-batches
/// divide the step.
class BatchMix {
 public:
  /// None if the chain has neither.
  /// @throws InvalidArgument  `num_classes` < 1, or the parameters.
  static std::optional<BatchMix> of(const TransformChain& chain, ImageShape image, DType dtype,
                                    int num_classes);

  /// What is drawn for a batch.
  struct Mixing {
    pixel::CutRect rect;  // CutMix only
    float lambda = 1;     // weight of the image itself
  };

  std::size_t scratch_bytes() const { return image_bytes_; }
  int num_classes() const { return num_classes_; }

  /// A micro-batch: `images` [count, image] of the dtype, `labels` [count], `soft_labels` [count,
  /// num_classes].
  struct Batch {
    void* images = nullptr;
    const std::int32_t* labels = nullptr;
    float* soft_labels = nullptr;
    std::int64_t count = 0;
  };

  /// `scratch` has scratch_bytes().
  /// @throws DataError  a label is not below num_classes; says which row.
  void apply(const Batch& batch, const DrawAddress& address, std::byte* scratch) const {
    mix(batch, draw(address), scratch);
  }
  Mixing draw(const DrawAddress& address) const;
  /// apply() with what was drawn.
  void mix(const Batch& batch, const Mixing& mixing, std::byte* scratch) const;

 private:
  void mix_image(std::byte* image, const std::byte* other, const Mixing& mixing) const;

  ImageShape shape_;
  DType dtype_ = DType::FP32;
  int num_classes_ = 0;
  std::size_t image_bytes_ = 0;
  float alpha_ = 1;
  bool cuts_ = false;
};

}  // namespace tr::data
