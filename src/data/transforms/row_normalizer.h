// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "renaissance/core/dtype.h"
#include "renaissance/data/transforms.h"

namespace tr::data {

/// Mean and standard deviation of each channel. @throws InvalidArgument  they are for other numbers
/// of channels.
struct ChannelNorm {
  float mean = 0, std = 1;
};
std::vector<ChannelNorm> channel_norms(const Normalization& normalization, int channels);

/// Turns rows of UINT8 pixels into FP32, FP16 or BF16: the entry of a table of 256 values a
/// channel, or the same bits by vector arithmetic, where that was found to give them.
class RowNormalizer {
 public:
  RowNormalizer(std::vector<ChannelNorm> norms, DType dtype);

  /// `count` values, whole pixels. `dst` is of the dtype.
  void convert(const std::uint8_t* src, std::size_t count, void* dst) const;

  DType dtype() const { return dtype_; }
  bool uses_vectors() const { return vectors_; }

 private:
  std::size_t convert_vectors(const std::uint8_t* src, std::size_t count, void* dst) const;
  template <int kChannels>
  std::size_t convert_channels(const std::uint8_t* src, std::size_t count, void* dst) const;
  bool vectors_agree() const;

  DType dtype_;
  std::size_t channels_;
  std::vector<float> table_;                       // [channels][256]
  std::vector<std::uint16_t> table16_;             // the same, rounded to FP16 or BF16
  std::vector<float> means_, stds_, reciprocals_;  // [8 channels]: of eight pixels in a row
  bool vectors_ = false;
};

}  // namespace tr::data
