// SPDX-License-Identifier: Apache-2.0
#pragma once

// The weights' gradient of conv_stem.cuh, of a dy that is there or made on the way.

#include "backend/cuda/batch_norm.cuh"
#include "backend/cuda/block_sums_layout.h"
#include "backend/cuda/conv_stem.cuh"
#include "backend/cuda/conv_sums.cuh"
#include "backend/cuda/mma_instructions.cuh"

namespace tr::cuda::stem_conv {

// The weights' gradient. The pixels of a tile are the terms of its sums, and neighbours in them are
// two columns of the picture apart: its rows are dealt out to planes, one for every row of the
// windows, channel and parity of the column. Warp: a column of the windows, all channels.

constexpr int kWeightThreads = 32 * kSide;
constexpr int kPlanes = kSide * kIn;  // of one parity
constexpr int kPlanePitch = 136;      // elements: eight planes lie in different banks
constexpr int kGroups = 58;           // of 4 columns: those that a tile's windows cover
constexpr int kDyPitch = kOut + mma::kPadding;
constexpr int kTermTiles = (kPlanes + 7) / 8;
constexpr int kChunksOfPixel = kOut / 8;  // of 16 bytes
static_assert(kWeightThreads % kChunksOfPixel == 0);
static_assert(4 * kGroups >= (kPixels - 1) * kStep + kSide + 1 && 2 * kGroups <= kPlanePitch);
static_assert(kPlanePitch / 2 % 32 == 4);

template <typename T, typename Gradient>
struct WeightStage {
  __align__(16) T planes[2 * kPlanes * kPlanePitch];
  __align__(16) T dy[2][kPixels * kDyPitch];
  __align__(16) T x[Gradient::kReadsX ? 2 : 1][Gradient::kReadsX ? kPixels * kDyPitch : 8];
};

/// dy is there as it is wanted.
template <typename T>
struct StoredGradient {
  static constexpr bool kReadsX = false;
};

/// dy is the gradient behind a norm whose x is the convolution's y: the norm's dx is made of it on
/// the way, and rounded as where it is stored.
template <typename T>
struct GradientOfNorm {
  static constexpr bool kReadsX = true;
  const T* x;
  NormalisationArrays arrays;
  Coefficients coefficients;

  /// Of the tile's pixels, those that the thread has copied; it always copies the same channels.
  __device__ void apply(const Tile& tile, const T* x_of_tile, T* dy) const {
    const int chunk = int(threadIdx.x) % kChunksOfPixel;
    const auto channel =
        load_dx_channel<8>(arrays, coefficients, std::int64_t(blockIdx.y) * kOut + chunk * 8);
#pragma unroll 1
    for (int p = int(threadIdx.x) / kChunksOfPixel; p < tile.num_pixels;
         p += kWeightThreads / kChunksOfPixel) {
      const int at = p * kDyPitch + chunk * 8;
      const Vector<T, 8> dz = load<8>(dy + at), values = load<8>(x_of_tile + at);
      Vector<T, 8> dx;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        dx.v[j] = from_float<T>(channel(j, to_float(dz.v[j]), to_float(values.v[j])));
      }
      store(dy + at, dx);
    }
  }
};

/// Four columns of a row of the picture, all channels: 12 values in pairs.
template <typename T>
struct FourColumns {
  static constexpr int kPairs = 2 * kIn;
  std::uint32_t pairs[kPairs];

  __device__ void load(const T* x, const StemShape& s, const Tile& tile, int i) {
    const T* row = tile.row_of(x, s, i / kGroups);
    // The first is even: so are its elements, and words of the picture where its width is even.
    const int column = tile.w - (tile.w & 1) + i % kGroups * 4;
    const T* from = row + column * kIn;
    const bool whole = row != nullptr && s.width % 2 == 0 && column >= 0 && column + 4 <= s.width;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      if (whole) {
        pairs[j] = pair_at(from + 2 * j);
        continue;
      }
      const auto value = [&](int e) {
        const bool inside = row != nullptr && unsigned(column + e / kIn) < unsigned(s.width);
        return inside ? from[e] : from_float<T>(0);
      };
      pairs[j] = packed(value(2 * j), value(2 * j + 1));
    }
  }
  __device__ void store(T* planes, int i) const {
#pragma unroll
    for (int parity = 0; parity < 2; ++parity) {
#pragma unroll
      for (int c = 0; c < kIn; ++c) {
        const int plane = parity * kPlanes + i / kGroups * kIn + c;
        // Values parity kIn + c and two columns behind it, whose halves are the same.
        const int e = parity * kIn + c;
        *reinterpret_cast<std::uint32_t*>(planes + plane * kPlanePitch + i % kGroups * 2) =
            __byte_perm(pairs[e / 2], pairs[e / 2 + kIn], e % 2 == 0 ? 0x5410 : 0x7632);
      }
    }
  }
};

template <typename T>
__device__ void stage_map(const T* map, const StemShape& s, const Tile& tile, T* to) {
  for (int i = int(threadIdx.x); i < kPixels * kChunksOfPixel; i += kWeightThreads) {
    const int p = i / kChunksOfPixel, chunk = i % kChunksOfPixel;
    const bool inside = p < tile.num_pixels;
    const T* from = map + (tile.pixel + p) * s.out_channels + blockIdx.y * kOut + chunk * 8;
    mma::copy_async(to + p * kDyPitch + chunk * 8, inside ? from : map, inside);
  }
}

/// partial[block x, channel, term] of 64 channels (block y) over tiles of 112 pixels.
template <typename T, typename Gradient>
__global__ void __launch_bounds__(kWeightThreads, 2)
    weight_kernel(const T* dy, const T* x, Gradient gradient, float* partial, StemShape s) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& shared = *reinterpret_cast<WeightStage<T, Gradient>*>(bytes);
  constexpr int kLoads = (kSide * kGroups + kWeightThreads - 1) / kWeightThreads;
  const int lane = int(threadIdx.x) % 32, column = int(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  FourColumns<T> picture[kLoads];
  const auto load_picture = [&](const Tile& tile) {
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int i = int(threadIdx.x) + u * kWeightThreads;
      if (i < kSide * kGroups) picture[u].load(x, s, tile, i);
    }
  };

  const int shifted =
      column + (Tile(s, 0).w & 1);            // columns from a plane's first, of both parities
  const bool between = shifted / 2 % 2 != 0;  // pairs lie in two words
  const T* planes[kTermTiles];
#pragma unroll
  for (int n = 0; n < kTermTiles; ++n) {
    const int plane = shifted % 2 * kPlanes + min(n * 8 + g, kPlanes - 1);
    planes[n] = shared.planes + plane * kPlanePitch + shifted / 4 * 2 + 2 * t;
  }

  const auto stage_maps = [&](const Tile& tile, int to) {
    stage_map(dy, s, tile, shared.dy[to]);
    if constexpr (Gradient::kReadsX) stage_map(gradient.x, s, tile, shared.x[to]);
  };

  float c[4][kTermTiles][4] = {};
  int stage = 0;
  if (blockIdx.x < s.tiles) {
    const Tile tile(s, blockIdx.x);
    stage_maps(tile, 0);
    load_picture(tile);
  }
  mma::commit_copies();
  for (std::int64_t number = blockIdx.x; number < s.tiles; number += gridDim.x) {
    __syncthreads();  // the planes and the other stage of dy are read
    const bool more = number + gridDim.x < s.tiles;
    if (more) stage_maps(Tile(s, number + gridDim.x), 1 - stage);
    mma::commit_copies();
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int i = int(threadIdx.x) + u * kWeightThreads;
      if (i < kSide * kGroups) picture[u].store(shared.planes, i);
    }
    mma::wait_for_copies<1>();
    if constexpr (Gradient::kReadsX) {
      gradient.apply(Tile(s, number), shared.x[stage], shared.dy[stage]);
    }
    __syncthreads();
    if (more) load_picture(Tile(s, number + gridDim.x));
    const T* dys = shared.dy[stage];
#pragma unroll
    for (int k = 0; k < kPixels; k += 16) {
      std::uint32_t b[kTermTiles][2];
#pragma unroll
      for (int n = 0; n < kTermTiles; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const T* from = planes[n] + k + 8 * half;
          b[n][half] = pair_at(from);
          if (between) b[n][half] = __byte_perm(b[n][half], pair_at(from + 2), 0x5432);
        }
      }
      const int matrix = lane / 8;
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        std::uint32_t a[4];
        mma::load_matrices<true>(
            a, dys + (k + lane % 8 + matrix / 2 * 8) * kDyPitch + m * 16 + matrix % 2 * 8);
#pragma unroll
        for (int n = 0; n < kTermTiles; ++n) mma::multiply(c[m][n], a, b[n][0], b[n][1], T());
      }
    }
    stage = 1 - stage;
  }
  float* to = partial + (blockIdx.x * s.out_channels + std::int64_t(blockIdx.y) * kOut) * kTerms;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int n = 0; n < kTermTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int plane = n * 8 + 2 * t + e % 2;
        if (plane >= kPlanes) continue;
        const int term = plane / kIn * kRun + column * kIn + plane % kIn;
        to[(m * 16 + g + e / 2 * 8) * kTerms + term] = c[m][n][e];
      }
    }
  }
}

inline LaunchShape weight_blocks(const StemShape& s) {
  return blocks_of(s, kWeightThreads, kWeightBlocks, kOut);
}

/// Where the blocks' sums for the weights' gradient lie.
inline BlockSumsLayout weight_layout(const StemShape& s) {
  return {weight_blocks(s).grid.x, s.out_channels * kTerms};
}

/// dweight [out_channels, 147] from dy and the picture x; the workspace is that of weight_layout().
template <typename T, typename Gradient>
void launch_weight_sums(const KernelArgs& args, const T* dy, const T* x, const Gradient& gradient,
                        std::byte* workspace) {
  const StemShape s = StemShape::of(conv_geometry(args.attrs(), args.in_type(args.num_in() - 1)));
  const BlockSumsLayout layout = weight_layout(s);
  auto* partial = reinterpret_cast<float*>(workspace);
  LaunchShape shape = weight_blocks(s);
  shape.shared_bytes = sizeof(WeightStage<T, Gradient>);
  TR_CUDA(cudaFuncSetAttribute(weight_kernel<T, Gradient>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               int(shape.shared_bytes)));
  launch(args, shape, weight_kernel<T, Gradient>, dy, x, gradient, partial, s);
  layout.sums.run(args, partial, args.out<float>(0), workspace + layout.rest);
}

}  // namespace tr::cuda::stem_conv
