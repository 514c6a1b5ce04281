// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/pixel/erase.h"
#include "data/transforms/pixel_step.h"
#include "data/transforms/row_normalizer.h"

namespace tr::data {

/// The last step of every chain, one pass over the pixels straight into the batch: mirrored if a
/// flip says so, filled up with channels of zeros, normalised to image_dtype, the rectangle of
/// RandomErasing set to 0.
class FusedNormalization {
 public:
  /// `out_channels` 0: those of `in`.
  /// @throws InvalidArgument  the normalisation has another number of channels, dtype is no
  /// floating type, or out_channels are fewer than those of the images.
  FusedNormalization(const Normalization& normalization,
                     const std::optional<RandomErasing>& erasing, ImageShape in, DType dtype,
                     int out_channels = 0);

  /// `dst` has out().num_bytes() * size_of(dtype()) bytes; the draws are those of RandomErasing.
  void apply(const ImageRef& src, bool mirrored, void* dst, const pixel::StepDraws& draws) const;

  const ImageShape& out() const { return out_; }
  DType dtype() const { return rows_.dtype(); }
  const std::optional<pixel::EraseRange>& erasing() const { return erasing_; }

 private:
  void convert_row(const std::uint8_t* row, bool mirrored, std::byte* dst) const;

  ImageShape in_, out_;
  RowNormalizer rows_;
  std::optional<pixel::EraseRange> erasing_;
};

}  // namespace tr::data
