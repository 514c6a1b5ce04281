// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "core/pixel/mix.h"
#include "data/transforms/pixel_step.h"
#include "renaissance/core/dtype.h"

namespace tr::data {

/// True if the chain holds Mixup or CutMix.
bool mixes_batches(const TransformChain& chain);

/// Mixup and CutMix of a step whose images stand in slots: image i is mixed with image i - 1 of the
/// step, the first with the last, as torchvision's v2 transforms do. A micro-batch is a part of the
/// step and brings along the image before its first one. What is drawn depends on the step's place
/// in the epoch alone, so neither ranks nor micro-batches change a byte.
class BatchMix {
 public:
  /// None if the chain has neither.
  /// @throws InvalidArgument  `num_classes` < 1, or the parameters.
  static std::optional<BatchMix> of(const TransformChain& chain, ImageShape image, DType dtype,
                                    int num_classes);

  enum class Kind : std::uint8_t { NONE, MIXUP, CUTMIX };

  /// What is drawn for a step.
  struct Mixing {
    Kind kind = Kind::NONE;
    float lambda = 1;     // weight of the image itself
    pixel::CutRect rect;  // CUTMIX only
  };

  int num_classes() const { return num_classes_; }

  /// A micro-batch of `count` rows. One more row of images and labels, behind the last, holds the
  /// sample before the first one.
  struct Batch {
    void* images = nullptr;  // [count + 1, image] of the dtype
    void* labels = nullptr;  // [count + 1], INT32 or INT64
    DType label_dtype = DType::INT32;
    float* soft_labels = nullptr;  // [count, num_classes]
    std::int64_t count = 0;
  };

  Mixing draw(const DrawAddress& address) const;
  /// Mixes images and writes `soft_labels`; `labels` become those of the heavier images (of equal
  /// ones its own).
  /// @throws DataError  a label is not below num_classes; says which row.
  void mix(const Batch& batch, const Mixing& mixing) const;
  void apply(const Batch& batch, const DrawAddress& address) const { mix(batch, draw(address)); }

 private:
  struct Choice {
    Kind kind;
    float alpha, p;
  };
  void mix_image(std::byte* image, const std::byte* other, const Mixing& mixing) const;
  template <typename Label>
  void mix_labels(const Batch& batch, Label* labels, float lambda) const;

  ImageShape shape_;
  DType dtype_ = DType::FP32;
  int num_classes_ = 0;
  std::size_t image_bytes_ = 0;
  std::vector<Choice> choices_;
};

}  // namespace tr::data
