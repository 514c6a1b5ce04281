// SPDX-License-Identifier: Apache-2.0
#pragma once

// 3x3 windows over pictures of 3 channels on the tensor cores: 27 terms a pixel are too few for
// libraries' tiles; here each pixel's terms are gathered once, into a row of 32 in shared memory.
// A line of the window is 9 neighbours in memory and has 10 places of the row, so that it is
// copied in pairs; the tenth place of the first line holds a 1, whose products are plain sums.

#include "backend/cuda/conv_sums.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/map.cuh"
#include "backend/cuda/mma_instructions.cuh"
#include "ops/conv_geometry.h"

namespace tr::cuda::first_conv {

constexpr int kIn = 3, kSide = 3, kLine = kSide * kIn, kTerms = kSide * kLine;
constexpr int kRow = 32;  // places; zeros behind the lines
constexpr int kPlacesOfLine = kLine + 1;
constexpr int kOne = kLine;  // the place that holds 1 for every pixel

/// The term in a place of a row, in the order of the weights; -1: none.
__host__ __device__ constexpr int term_of(int place) {
  const int line = place / kPlacesOfLine, i = place % kPlacesOfLine;
  return line < kSide && i < kLine ? line * kLine + i : -1;
}
/// The place of a term.
__host__ __device__ constexpr int place_of(int term) {
  return term / kLine * kPlacesOfLine + term % kLine;
}

constexpr int kRowStride = kRow + mma::kPadding;  // of a row in shared memory
constexpr int kOut = 64;                          // channels of a block
constexpr int kThreads = 256, kWarpsOfBlock = kThreads / 32;
constexpr int kForwardPixels = kThreads;  // of a tile
constexpr std::int64_t kBlocks = 264;     // a constant, since sums are cut by it

struct FirstShape {
  int height, width, out_height, out_width, stride_h, stride_w, padding_h, padding_w;
  std::int64_t pixels;  // of y
  std::int64_t out_channels;
  std::int64_t words;  // pairs of x

  static FirstShape of(const ConvGeometry& g) {
    return {int(g.height),
            int(g.width),
            int(g.out_height),
            int(g.out_width),
            int(g.stride[0]),
            int(g.stride[1]),
            int(g.padding[0]),
            int(g.padding[1]),
            g.batch * g.out_height * g.out_width,
            g.out_channels,
            g.batch * g.height * g.width * kIn / 2};
  }
};

/// A line of windows as it was loaded: its values begin in the low half of word 0, or, odd, in the
/// high one.
struct Line {
  static constexpr int kWords = kPlacesOfLine / 2;
  std::uint32_t words[kWords];

  /// Place 2 i and the one behind it, what is outside of the picture and place 9 being anything.
  __device__ std::uint32_t pair(int i, bool odd) const {
    return __funnelshift_r(words[i], i + 1 < kWords ? words[i + 1] : 0, odd ? 16 : 0);
  }
};

/// The terms of a pixel of y. What is loaded is not touched before it is stored, so that other work
/// may lie between the two.
template <typename T>
class Terms {
 public:
  __device__ void load(const T* x, const FirstShape& s, std::int64_t p) {
#pragma unroll
    for (Line& line : lines_) line = {};
    inside_ = odd_ = 0;
    pixel_ = p < s.pixels;
    if (!pixel_) return;
    const auto pixel = std::uint32_t(p);
    const std::uint32_t y_line = pixel / std::uint32_t(s.out_width);
    const std::uint32_t n = y_line / std::uint32_t(s.out_height);
    const int h0 = int(y_line - n * std::uint32_t(s.out_height)) * s.stride_h - s.padding_h;
    const int w0 = int(pixel - y_line * std::uint32_t(s.out_width)) * s.stride_w - s.padding_w;
#pragma unroll
    for (int c = 0; c < kSide; ++c) inside_ |= unsigned(unsigned(w0 + c) < unsigned(s.width)) << c;
    const std::int64_t first = ((std::int64_t(n) * s.height + h0) * s.width + w0) * kIn;
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      if (unsigned(h0 + r) >= unsigned(s.height)) continue;
      load_line(x, s, first + std::int64_t(r) * s.width * kIn, r);
    }
  }
  /// To a row in shared memory.
  __device__ void store(T* row) const {
    constexpr std::uint32_t kLow = 0xffffu, kHigh = 0xffff0000u;
    const std::uint32_t one = pixel_ ? packed(from_float<T>(0), from_float<T>(1)) : 0;
    const bool left = inside_ & 1, middle = inside_ & 2, right = inside_ & 4;
    std::uint32_t pairs[kRow / 2];
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      const bool odd = odd_ >> r & 1;
      std::uint32_t* to = pairs + r * Line::kWords;
      to[0] = left ? lines_[r].pair(0, odd) : 0;
      to[1] = lines_[r].pair(1, odd) & ((left ? kLow : 0) | (middle ? kHigh : 0));
      to[2] = middle ? lines_[r].pair(2, odd) : 0;
      to[3] = right ? lines_[r].pair(3, odd) : 0;
      to[4] = (right ? lines_[r].pair(4, odd) & kLow : 0) | (r == 0 ? one : 0);
    }
    pairs[kRow / 2 - 1] = 0;
#pragma unroll
    for (int i = 0; i < kRow / 8; ++i) {
      reinterpret_cast<uint4*>(row)[i] =
          make_uint4(pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]);
    }
  }

 private:
  /// `at`: the place of its first value in x, which may lie in front of the picture.
  __device__ void load_line(const T* x, const FirstShape& s, std::int64_t at, int r) {
    const std::int64_t word = at >> 1;
    if (word >= 0 && word + Line::kWords <= s.words) {
      odd_ |= unsigned(at & 1) << r;
#pragma unroll
      for (int i = 0; i < Line::kWords; ++i) {
        lines_[r].words[i] = reinterpret_cast<const std::uint32_t*>(x)[word + i];
      }
      return;
    }
    // At the ends of the batch: nothing outside of it is read.
    T values[kPlacesOfLine];
#pragma unroll
    for (int i = 0; i < kPlacesOfLine; ++i) {
      const bool exists = i < kLine && inside_ >> (i / kIn) & 1;
      values[i] = exists ? x[at + i] : from_float<T>(0);
    }
#pragma unroll
    for (int i = 0; i < Line::kWords; ++i) {
      lines_[r].words[i] = packed(values[2 * i], values[2 * i + 1]);
    }
  }

  Line lines_[kSide];
  unsigned inside_, odd_;  // bits of the window's columns, of its lines
  bool pixel_;
};

/// The rows of 16 pixels as the tensor cores' first operand.
struct RowsOf16 {
  std::uint32_t a[2][4];

  template <typename T>
  __device__ explicit RowsOf16(const T* rows) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      mma::load_matrices<false>(a[k], rows + lane % 16 * kRowStride + k * 16 + lane / 16 * 8);
    }
  }
};

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
          const int place = k * 16 + half * 8 + 2 * t;
          const T* of_channel = own + channel_of(j, g) * kTerms;
          const auto in = [&](int term) { return term < 0 ? from_float<T>(0) : of_channel[term]; };
          b_[k][j][half] = packed(in(term_of(place)), in(term_of(place + 1)));
        }
      }
    }
  }
  /// y of 16 pixels, channels from 32 part on: value i of a thread's 8 neighbouring channels 32
  /// part
  /// + 8 (lane % 4) + i of pixel lane / 4 + 8 half is c[i / 2][2 half + i % 2].
  __device__ void multiply(const RowsOf16& rows, int part, float (&c)[4][4]) const {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        mma::multiply(c[j], rows.a[k], b_[k][4 * part + j][0], b_[k][4 * part + j][1], T());
      }
    }
  }

 private:
  std::uint32_t b_[2][8][2];
};

/// Blocks that take tiles in turns, for every 64 channels.
inline LaunchShape blocks_of(const FirstShape& s, int pixels_of_tile, std::int64_t most = kBlocks) {
  LaunchShape shape;
  shape.block.x = kThreads;
  shape.grid.x =
      unsigned(std::min<std::int64_t>(most, ceil_div<std::int64_t>(s.pixels, pixels_of_tile)));
  shape.grid.y = unsigned(s.out_channels / kOut);
  return shape;
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
