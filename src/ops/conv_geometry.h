// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "graph/op_def.h"

namespace tr {

/// All sizes of one convolution, from the attributes of `conv` and the type of its x. Kernels use
/// it too.
struct ConvGeometry {
  std::int64_t batch, height, width, channels;  // x [N, H, W, C]
  std::int64_t out_height, out_width, out_channels;
  std::int64_t kernel[2], stride[2], padding[2], dilation[2];
  std::int64_t groups;

  Shape x_shape() const { return {batch, height, width, channels}; }
  Shape weight_shape() const { return {out_channels, kernel[0], kernel[1], channels / groups}; }
  Shape y_shape() const { return {batch, out_height, out_width, out_channels}; }
  std::int64_t multiply_adds() const;
};

/// @throws InvalidArgument  x is not [N, H, W, C], a number is out of range, groups do not divide
///   the channels, or the kernel exceeds the padded image.
ConvGeometry conv_geometry(const Attrs& attrs, const TensorType& x);

/// Sizes of one pooling, from the attributes of `maxpool` or `avgpool`.
struct PoolGeometry {
  std::int64_t batch, height, width, channels;
  std::int64_t out_height, out_width;
  std::int64_t kernel[2], stride[2], padding[2];

  Shape x_shape() const { return {batch, height, width, channels}; }
  Shape y_shape() const { return {batch, out_height, out_width, channels}; }
};

/// @throws InvalidArgument  x is not [N, H, W, C], a number is out of range, padding exceeds half
///   the kernel, or the kernel exceeds the padded image (with ceil_mode: no window begins in it).
PoolGeometry pool_geometry(const Attrs& attrs, const TensorType& x);

/// The same from attributes named pool_kernel and so on, which stand beside a convolution's.
PoolGeometry prefixed_pool_geometry(const Attrs& attrs, const TensorType& x);

/// Sizes of `adaptive_avgpool`, whose windows divide the image as evenly as they can.
struct AdaptiveGeometry {
  std::int64_t batch, height, width, channels;
  std::int64_t out_height, out_width;

  Shape x_shape() const { return {batch, height, width, channels}; }
  Shape y_shape() const { return {batch, out_height, out_width, channels}; }
  /// Cells [begin, end) of the `size` along one axis that window `index` of `count` averages.
  static constexpr std::int64_t begin(std::int64_t index, std::int64_t size, std::int64_t count) {
    return index * size / count;
  }
  static constexpr std::int64_t end(std::int64_t index, std::int64_t size, std::int64_t count) {
    return ((index + 1) * size + count - 1) / count;
  }
};

/// @throws InvalidArgument  x is not [N, H, W, C], or a number of `size` is out of range.
AdaptiveGeometry adaptive_geometry(const Attrs& attrs, const TensorType& x);

}  // namespace tr
