// SPDX-License-Identifier: Apache-2.0
#pragma once

// What our convolutions share: the channels that a thread of the tensor cores' tiles holds, and the
// sums of y that batch norm wants.

#include <cstdint>

#include "backend/cuda/scalar.cuh"

namespace tr::cuda {

template <typename T>
__device__ std::uint32_t packed(T low, T high) {
  static_assert(sizeof(T) == 2);
  return std::uint32_t(reinterpret_cast<const std::uint16_t&>(low)) |
         std::uint32_t(reinterpret_cast<const std::uint16_t&>(high)) << 16;
}

/// Which channel column n of tile j of 8 columns stands for: so that a thread's columns 2t and
/// 2t + 1 of four tiles are 8 neighbours in memory.
__device__ inline int channel_of(int j, int n) {
  return j / 4 * 32 + n / 2 * 8 + j % 4 * 2 + n % 2;
}

/// Sums over a block's tiles, of what a thread has seen: kValues channels of a warp's 4 kValues.
/// kShares warps of the block see the same channels of its kChannels.
template <int kValues, int kShares, int kChannels>
struct ChannelSums {
  float sum[kValues] = {}, squares[kValues] = {};

  __device__ void add(int i, float value) {
    sum[i] += value;
    squares[i] += value * value;
  }
  /// to[0 or 1, channel], rows of out_channels, in a fixed order. The warp is number `share` of
  /// those whose channels begin at `first`. All threads of the block come to its barrier.
  __device__ void finish(float* to, std::int64_t out_channels, int share, int first) {
    __shared__ float of_warp[kShares][2][kChannels];
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      for (int width = 4; width < 32; width *= 2) {
        sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], width);
        squares[i] += __shfl_xor_sync(0xffffffffu, squares[i], width);
      }
      if (lane >= 4) continue;
      const int channel = first + channel_of(i / 2, 2 * lane + i % 2);
      of_warp[share][0][channel] = sum[i];
      of_warp[share][1][channel] = squares[i];
    }
    __syncthreads();
    if (threadIdx.x >= 2 * kChannels) return;
    const int which = int(threadIdx.x) / kChannels, channel = int(threadIdx.x) % kChannels;
    float total = 0;
    for (int w = 0; w < kShares; ++w) total += of_warp[w][which][channel];
    to[which * out_channels + channel] = total;
  }
};

/// Where block (x, y) leaves its sums: partial[x, 0 or 1, channel], `of_block` channels for each y.
__device__ inline float* place_of_sums(float* partial, std::int64_t channels, int of_block) {
  return partial + blockIdx.x * 2 * channels + blockIdx.y * of_block;
}

/// What is kept of the sums.
struct StoreSums {
  float* statistics;
  std::int64_t channels;

  __device__ void operator()(std::int64_t c, double sum, double squares) const {
    statistics[c] = float(sum);
    statistics[channels + c] = float(squares);
  }
};

}  // namespace tr::cuda
