// SPDX-License-Identifier: Apache-2.0
#pragma once

// Convolutions of 7x7 windows at stride 2 over pictures of 3 channels on the tensor cores. A row of
// a window is 21 neighbours in memory, so the terms of a product are read where the picture's rows
// lie in shared memory; nothing is gathered.

#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"
#include "ops/conv_geometry.h"

namespace tr::cuda::stem_conv {

constexpr int kIn = 3, kSide = 7, kStep = 2;
constexpr int kRun = kSide * kIn;     // terms of a window's row
constexpr int kTerms = kSide * kRun;  // of a window
constexpr int kChunksOfRow = 3;       // of 8 terms: 24 hold a row
constexpr int kChunks = kSide * kChunksOfRow;
constexpr int kOut = 64;                  // channels of a block
constexpr int kPixels = 112;              // of a tile: neighbours in a row of y
constexpr int kTilesDown = kPixels / 16;  // of the tensor cores
constexpr std::int64_t kBlocks = 132;     // constants, since sums are cut by them
constexpr std::int64_t kWeightBlocks = 264;

struct StemShape {
  int height, width, out_height, out_width, padding_h, padding_w;
  int segments;  // tiles of a row of y
  std::int64_t tiles, out_channels;

  static StemShape of(const ConvGeometry& g) {
    const auto segments = int(ceil_div<std::int64_t>(g.out_width, kPixels));
    return {
        int(g.height),     int(g.width),      int(g.out_height), int(g.out_width),
        int(g.padding[0]), int(g.padding[1]), segments,          g.batch * g.out_height * segments,
        g.out_channels};
  }
};

/// Where a tile lies: its first pixel, and the corner of that one's window.
struct Tile {
  std::int64_t pixel;  // of y
  int num_pixels, n, h, w;

  __device__ Tile(const StemShape& s, std::int64_t number) {
    const auto tile = std::uint32_t(number);
    const std::uint32_t line = tile / std::uint32_t(s.segments);
    const int column = int(tile - line * std::uint32_t(s.segments)) * kPixels;
    n = int(line / std::uint32_t(s.out_height));
    const int row = int(line - std::uint32_t(n) * std::uint32_t(s.out_height));
    pixel = std::int64_t(line) * s.out_width + column;
    num_pixels = min(kPixels, s.out_width - column);
    h = row * kStep - s.padding_h;
    w = column * kStep - s.padding_w;
  }
  /// Row r of the windows; null outside of the picture.
  template <typename T>
  __device__ const T* row_of(const T* x, const StemShape& s, int r) const {
    if (unsigned(h + r) >= unsigned(s.height)) return nullptr;
    return x + (std::int64_t(n) * s.height + h + r) * s.width * kIn;
  }
};

template <typename T>
__device__ std::uint32_t pair_at(const T* p) {
  return *reinterpret_cast<const std::uint32_t*>(p);
}

/// Blocks that take tiles in turns, for every `channels`.
inline LaunchShape blocks_of(const StemShape& s, int threads, std::int64_t most, int channels) {
  LaunchShape shape;
  shape.block.x = unsigned(threads);
  shape.grid.x = unsigned(std::min(most, s.tiles));
  shape.grid.y = unsigned(s.out_channels / channels);
  return shape;
}
/// x is input `i`.
inline std::string refuse(const KernelQuery& query, std::size_t i) {
  const TensorType& x = query.in[i];
  if (size_of(x.dtype) != 2) return "its operands are 16 bits wide";
  const ConvGeometry g = conv_geometry(query.attrs, x);
  const bool fits = g.channels == kIn && g.kernel[0] == kSide && g.kernel[1] == kSide &&
                    g.stride[0] == kStep && g.stride[1] == kStep && g.groups == 1 &&
                    g.dilation[0] == 1 && g.dilation[1] == 1 && g.out_channels % kOut == 0;
  if (!fits) return "it is for 7x7 windows at stride 2 over 3 channels, to a multiple of 64";
  if (query.attrs.flag("bias")) return "it adds no bias";
  const std::int64_t pixels = g.batch * g.out_height * g.out_width;
  if (pixels == 0 || pixels > INT32_MAX) return "the number of pixels is 0 or above 2^31";
  return refuse_old_code();
}

}  // namespace tr::cuda::stem_conv
