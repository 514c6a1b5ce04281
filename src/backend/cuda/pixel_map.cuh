// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels that compute a pixel's channels from a window of another feature map: pooling, and copies
// that change the number of channels.

#include <cstdint>
#include <string>

#include "backend/cuda/channel_map.cuh"

namespace tr::cuda {

/// A feature map [batch, height, width, channels], as kernels index it.
struct PixelMap {
  std::uint32_t height, width;
  std::int64_t channels;

  static PixelMap of(const Shape& shape) {
    return {std::uint32_t(shape[1]), std::uint32_t(shape[2]), shape[3]};
  }
  /// Element of channel c of a pixel.
  __device__ std::int64_t at(std::uint32_t n, int h, int w, std::int64_t c) const {
    return ((std::int64_t(n) * height + h) * width + w) * channels + c;
  }
};

struct Pixel {
  std::uint32_t n;
  int h, w;
};

__device__ inline Pixel pixel_of(std::uint32_t row, const PixelMap& map) {
  const std::uint32_t line = row / map.width;
  return {line / map.height, int(line % map.height), int(row % map.width)};
}

/// Calls f.run<N>(row, c) for every pixel `row` and every N channels from c on.
template <int N, typename F>
__global__ void pixel_map_kernel(F f, std::uint32_t rows, std::int64_t channels) {
  const std::int64_t c = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  const std::uint32_t row = blockIdx.x * blockDim.y + threadIdx.y;
  if (c < channels && row < rows) f.template run<N>(row, c);
}

template <typename T, typename F>
void launch_pixel_map(const KernelArgs& args, const ChannelRows& shape, const F& f) {
  if (shape.rows == 0) return;
  dispatch_channels<T>(shape.channels, [&](auto vector) {
    LaunchShape launch_shape = channel_block(shape, vector());
    launch_shape.grid.x = unsigned(ceil_div<std::int64_t>(shape.rows, launch_shape.block.y));
    launch(args, launch_shape, pixel_map_kernel<vector(), F>, f, std::uint32_t(shape.rows),
           shape.channels);
  });
}

/// Reason why these kernels cannot run: pixels are counted in 31 bits.
inline std::string refuse_many_pixels(const KernelQuery& query) {
  for (const std::span<const TensorType> types : {query.in, query.out}) {
    for (const TensorType& type : types) {
      if (type.shape.rank() == 4 && ChannelRows::of(type.shape).rows > INT32_MAX) {
        return "the feature map has more than 2^31 pixels";
      }
    }
  }
  return "";
}

}  // namespace tr::cuda
