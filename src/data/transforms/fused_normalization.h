// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "core/pixel/erase.h"
#include "data/transforms/pixel_step.h"
#include "renaissance/core/dtype.h"

namespace tr::data {

/// The last step of every chain: UINT8 pixels to image_dtype through a 256-entry table a channel,
/// straight into the batch, then the rectangle of RandomErasing set to 0.
class FusedNormalization {
 public:
  /// @throws InvalidArgument  the normalisation has another number of channels, or dtype is no
  /// floating type.
  FusedNormalization(const Normalization& normalization,
                     const std::optional<RandomErasing>& erasing, ImageShape in, DType dtype);

  /// `dst` has num_elements * size_of(dtype) bytes.
  void apply(const std::uint8_t* src, void* dst, const pixel::StepDraws& draws) const;

  DType dtype() const { return dtype_; }

 private:
  template <typename T>
  void convert(const std::uint8_t* src, T* dst, const T* table) const;

  ImageShape in_;
  DType dtype_;
  std::vector<float> table_;            // [channels][256]
  std::vector<std::uint16_t> table16_;  // the same, rounded to FP16 or BF16
  std::optional<pixel::EraseRange> erasing_;
};

/// Mean and standard deviation of each channel. @throws InvalidArgument  they are for other numbers
/// of channels.
struct ChannelNorm {
  float mean = 0, std = 1;
};
std::vector<ChannelNorm> channel_norms(const Normalization& normalization, int channels);

}  // namespace tr::data
