// SPDX-License-Identifier: Apache-2.0
#pragma once

// 3x3 windows over pictures of 3 channels on the tensor cores: 27 terms a pixel are too few for
// libraries' tiles; here each pixel's terms are gathered once, into a row of 32 in shared memory.

#include "backend/cuda/block_sums_layout.h"
#include "backend/cuda/conv_sums.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/map.cuh"
#include "backend/cuda/mma_instructions.cuh"
#include "ops/conv_geometry.h"

namespace tr::cuda::first_conv {

constexpr int kIn = 3, kTaps = 9, kTerms = kIn * kTaps;
constexpr int kRow = 32;                          // terms, filled up with zeros
constexpr int kRowStride = kRow + mma::kPadding;  // of a row in shared memory
constexpr int kOut = 64;                          // channels of a block
constexpr int kThreads = 256, kWarpsOfBlock = kThreads / 32;
constexpr int kForwardPixels = kThreads;  // of a tile
constexpr int kWeightPixels = 16 * kWarpsOfBlock;
constexpr std::int64_t kBlocks = 264;  // a constant, since sums are cut by it

struct FirstShape {
  int height, width, out_height, out_width, stride_h, stride_w, padding_h, padding_w;
  std::int64_t pixels;  // of y
  std::int64_t out_channels;

  static FirstShape of(const ConvGeometry& g) {
    return {int(g.height),     int(g.width),      int(g.out_height),
            int(g.out_width),  int(g.stride[0]),  int(g.stride[1]),
            int(g.padding[0]), int(g.padding[1]), g.batch * g.out_height * g.out_width,
            g.out_channels};
  }
};

/// The terms of a pixel of y, (window cell, channel); zeros outside of the picture, behind the last
/// term, and for pixels that do not exist.
template <typename T>
struct Terms {
  T v[kRow];

  __device__ void load(const T* x, const FirstShape& s, std::int64_t p) {
#pragma unroll
    for (int i = 0; i < kRow; ++i) v[i] = from_float<T>(0);
    if (p >= s.pixels) return;
    const auto pixel = std::uint32_t(p);
    const std::uint32_t line = pixel / std::uint32_t(s.out_width);
    const std::uint32_t n = line / std::uint32_t(s.out_height);
    const int h0 = int(line - n * std::uint32_t(s.out_height)) * s.stride_h - s.padding_h;
    const int w0 = int(pixel - line * std::uint32_t(s.out_width)) * s.stride_w - s.padding_w;
    const T* picture = x + std::int64_t(n) * s.height * s.width * kIn;
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      const int h = h0 + tap / 3, w = w0 + tap % 3;
      if (unsigned(h) >= unsigned(s.height) || unsigned(w) >= unsigned(s.width)) continue;
      const T* from = picture + (std::int64_t(h) * s.width + w) * kIn;
#pragma unroll
      for (int c = 0; c < kIn; ++c) v[tap * kIn + c] = from[c];
    }
  }
  /// To a row in shared memory.
  __device__ void store(T* row) const {
#pragma unroll
    for (int i = 0; i < kRow; i += 8) {
      Vector<T, 8> some;
#pragma unroll
      for (int j = 0; j < 8; ++j) some.v[j] = v[i + j];
      cuda::store(row + i, some);
    }
  }
};

template <typename T>
__device__ void gather_row(const T* x, const FirstShape& s, std::int64_t p, T* row) {
  Terms<T> terms;
  terms.load(x, s, p);
  terms.store(row);
}

/// The weights of 64 channels (block y) as the tensor cores' second operand.
template <typename T>
class Weights {
 public:
  __device__ explicit Weights(const T* weight) {
    const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const T* own = weight + std::int64_t(blockIdx.y) * kOut * kTerms;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int term = k * 16 + half * 8 + 2 * t;
          const T* from = own + channel_of(j, g) * kTerms + term;
          b_[k][j][half] = packed(term < kTerms ? from[0] : from_float<T>(0),
                                  term + 1 < kTerms ? from[1] : from_float<T>(0));
        }
      }
    }
  }
  /// y of the 16 pixels whose rows begin at `rows`, channels from 32 part on: value i of a thread's
  /// 8 neighbouring channels 32 part + 8 (lane % 4) + i of pixel lane / 4 + 8 half is
  /// c[i / 2][2 half + i % 2].
  __device__ void multiply(const T* rows, int part, float (&c)[4][4]) const {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      std::uint32_t a[4];
      mma::load_matrices<false>(a, rows + lane % 16 * kRowStride + k * 16 + lane / 16 * 8);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        mma::multiply(c[j], a, b_[k][4 * part + j][0], b_[k][4 * part + j][1], T());
      }
    }
  }

 private:
  std::uint32_t b_[2][8][2];
};

constexpr int kDyStride = kOut + mma::kPadding;

/// Sums of a warp for the weights' gradient of 64 channels.
template <typename T>
class WeightSums {
 public:
  /// Adds 16 pixels, whose rows of terms and of dy begin there.
  __device__ void add(const T* rows, const T* dys) {
    const int lane = int(threadIdx.x) % 32, matrix = lane / 8;
    std::uint32_t b[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      mma::load_matrices<true>(
          b[n], rows + (lane % 8 + matrix % 2 * 8) * kRowStride + n * 16 + matrix / 2 * 8);
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      std::uint32_t a[4];
      mma::load_matrices<true>(
          a, dys + (lane % 8 + matrix / 2 * 8) * kDyStride + m * 16 + matrix % 2 * 8);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        mma::multiply(c_[m][n], a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1], T());
      }
    }
  }
  /// partial[block x, channel, term] of 64 channels (block y): the warps' sums, one warp after the
  /// other, by way of `total` [64, 27] in shared memory. By all threads.
  __device__ void finish(float* total, float* partial, std::int64_t out_channels) const {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    __syncthreads();
    for (int turn = 0; turn < kWarpsOfBlock; ++turn) {
      if (warp == turn) {
#pragma unroll
        for (int m = 0; m < 4; ++m) {
#pragma unroll
          for (int n = 0; n < 4; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int channel = m * 16 + lane / 4 + e / 2 * 8;
              const int term = n * 8 + lane % 4 * 2 + e % 2;
              if (term >= kTerms) continue;
              float& sum = total[channel * kTerms + term];
              sum = (turn == 0 ? 0 : sum) + c_[m][n][e];
            }
          }
        }
      }
      __syncthreads();
    }
    float* to = partial + (blockIdx.x * out_channels + std::int64_t(blockIdx.y) * kOut) * kTerms;
    for (int i = int(threadIdx.x); i < kOut * kTerms; i += kThreads) to[i] = total[i];
  }

 private:
  float c_[4][4][4] = {};
};

/// Blocks that take tiles in turns, for every 64 channels.
inline LaunchShape blocks_of(const FirstShape& s, int pixels_of_tile) {
  LaunchShape shape;
  shape.block.x = kThreads;
  shape.grid.x =
      unsigned(std::min<std::int64_t>(kBlocks, ceil_div<std::int64_t>(s.pixels, pixels_of_tile)));
  shape.grid.y = unsigned(s.out_channels / kOut);
  return shape;
}

/// Where the blocks' sums for the weights' gradient lie.
inline BlockSumsLayout weight_layout(const FirstShape& s) {
  return {blocks_of(s, kWeightPixels).grid.x, s.out_channels * kTerms};
}

/// x is input `i`; empty: the kernels take it.
inline std::string refuse(const KernelQuery& query, std::size_t i) {
  const TensorType& x = query.in[i];
  if (size_of(x.dtype) != 2) return "its operands are 16 bits wide";
  const ConvGeometry g = conv_geometry(query.attrs, x);
  const bool fits = g.channels == kIn && g.kernel[0] == 3 && g.kernel[1] == 3 && g.groups == 1 &&
                    g.dilation[0] == 1 && g.dilation[1] == 1 && g.out_channels % kOut == 0;
  if (!fits) return "it is for 3x3 windows over 3 channels, to a multiple of 64";
  if (query.attrs.flag("bias")) return "it adds no bias";
  const std::int64_t pixels = g.batch * g.out_height * g.out_width;
  if (pixels == 0 || pixels > INT32_MAX) return "the number of pixels is 0 or above 2^31";
  return refuse_old_code();
}

}  // namespace tr::cuda::first_conv
