// SPDX-License-Identifier: Apache-2.0
#pragma once

// The gradient of batch norm, rectifier and max pooling by windows of 3x3 cells at stride 2 with a
// border of one cell, as residual networks begin: 2x2 blocks of cells lie in the four windows
// around them, so that little is read twice. strip_pool.cuh has the forward pass.

#include "backend/cuda/norm_gradient.cuh"
#include "backend/cuda/pool_window.cuh"

namespace tr::cuda {

constexpr int kWindowSide = 3;
/// The index of a window in which the rectifier let nothing through: no cell gets its gradient.
constexpr std::uint8_t kNoCell = 0xf0;

constexpr int kBlockCells = 4;  // 2x2, and as many windows around them

template <typename T, int N>
struct BlockLoaded {
  Vector<T, N> x[kBlockCells], dy[kBlockCells];
  Vector<std::uint8_t, N> winner[kBlockCells];
  std::int64_t corner;  // the element of the first cell
  unsigned inside;      // a bit for each cell of the picture
};

/// The gradients of a block's cells: those of the windows whose index names them, which the
/// rectifier let through.
template <typename T>
struct BlockSource {
  const T *dy, *x;
  const std::uint8_t* index;
  PixelMap in, out, blocks;

  template <int N>
  __device__ BlockLoaded<T, N> load(const Place& at) const {
    const Pixel block = pixel_of(std::uint32_t(at.row), blocks);
    BlockLoaded<T, N> loaded{};
    loaded.corner = in.at(block.n, 2 * block.h, 2 * block.w, at.c);
    const std::int64_t window = out.at(block.n, block.h, block.w, at.c);
#pragma unroll
    for (int k = 0; k < kBlockCells; ++k) {
      if (2 * block.h + k / 2 < int(in.height) && 2 * block.w + k % 2 < int(in.width)) {
        loaded.x[k] = cuda::load<N>(x + loaded.corner + offset(in, k));
        loaded.inside |= 1u << k;
      }
      if (block.h + k / 2 < int(out.height) && block.w + k % 2 < int(out.width)) {
        loaded.dy[k] = cuda::load<N>(dy + window + offset(out, k));
        loaded.winner[k] = cuda::load<N>(index + window + offset(out, k));
      }  // else its gradient is zero
    }
    return loaded;
  }
  /// From the first of four neighbours to number k.
  __device__ static std::int64_t offset(const PixelMap& map, int k) {
    return (k / 2 * std::int64_t(map.width) + k % 2) * map.channels;
  }
  /// Of cell k, channel j.
  template <int N>
  __device__ static float dz(const BlockLoaded<T, N>& in, int k, int j) {
    const int down = k / 2, right = k % 2;
    float sum = 0;
#pragma unroll
    for (int v = 0; v <= down; ++v) {
#pragma unroll
      for (int u = 0; u <= right; ++u) {
        const int cell = (down + 1 - 2 * v) * kWindowSide + right + 1 - 2 * u;
        const int window = 2 * v + u;
        if (in.winner[window].v[j] == cell) sum += to_float(in.dy[window].v[j]);
      }
    }
    // Rounded as the gradient in front of the pooling is where nothing is fused.
    return to_float(from_float<T>(sum));
  }
};

/// The norm's sums; dz is stored too, where somebody wants it.
template <typename T, bool kStore>
struct BlockSums {
  static constexpr int kInFlight = 1;
  BlockSource<T> source;
  NormalisationArrays arrays;
  T* stored;

  template <int N>
  __device__ Normalisation<N> channel(std::int64_t c) const {
    return arrays.load<N>(c);
  }
  template <int N>
  __device__ BlockLoaded<T, N> load(const Place& at) const {
    return source.template load<N>(at);
  }
  template <int N>
  __device__ void add(const Normalisation<N>& norm, const BlockLoaded<T, N>& in, const Place&,
                      float (&sums)[2][N]) const {
#pragma unroll
    for (int k = 0; k < kBlockCells; ++k) {
      if ((in.inside >> k & 1) == 0) continue;
      Vector<T, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float d = source.dz(in, k, j);
        sums[0][j] += d;
        sums[1][j] += d * (to_float(in.x[k].v[j]) - norm.mean.v[j]);
        out.v[j] = from_float<T>(d);
      }
      if constexpr (kStore) store(stored + in.corner + BlockSource<T>::offset(source.in, k), out);
    }
  }
};

template <typename T>
struct BlockDx {
  static constexpr int kInFlight = 1;
  BlockSource<T> source;
  T* dx;
  NormalisationArrays arrays;
  Coefficients coefficients;

  template <int N>
  __device__ DxChannel<N> channel(std::int64_t c) const {
    return load_dx_channel<N>(arrays, coefficients, c);
  }
  template <int N>
  __device__ BlockLoaded<T, N> load(const Place& at) const {
    return source.template load<N>(at);
  }
  template <int N>
  __device__ void finish(const DxChannel<N>& channel, const BlockLoaded<T, N>& in,
                         const Place&) const {
#pragma unroll
    for (int k = 0; k < kBlockCells; ++k) {
      if ((in.inside >> k & 1) == 0) continue;
      Vector<T, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float d = source.dz(in, k, j);
        out.v[j] = from_float<T>(channel(j, d, to_float(in.x[k].v[j])));
      }
      store(dx + in.corner + BlockSource<T>::offset(source.in, k), out);
    }
  }
};

/// Whether the kernels above take a pooling.
inline bool is_block_pooling(const PoolWindow& w) {
  return w.kernel[0] == 3 && w.kernel[1] == 3 && w.stride[0] == 2 && w.stride[1] == 2 &&
         w.padding[0] == 1 && w.padding[1] == 1;
}

/// A map's places by groups of `down` x `right` neighbours.
inline PixelMap grouped(const PixelMap& map, std::uint32_t down, std::uint32_t right) {
  return {(map.height + down - 1) / down, (map.width + right - 1) / right, map.channels};
}
inline ChannelRows rows_of(const PixelMap& map, std::int64_t batch) {
  return {batch * std::int64_t(map.height) * map.width, map.channels};
}

/// Outputs 1 and 2 (dweight, dbias) and the coefficients of dx; dz to `stored` if kStore.
template <typename T, bool kStore>
void launch_block_sums(const KernelArgs& args, const BlockSource<T>& source,
                       const NormalisationArrays& arrays, T* stored) {
  const BackwardWorkspace space(args);
  const ChannelRows rows = rows_of(source.blocks, args.in_type(1).shape[0]);
  const auto sums = launch_channel_sums<T>(args, rows, BlockSums<T, kStore>{source, arrays, stored},
                                           space.partial);
  launch_finish_norm(args, sums, arrays, false);
}

template <typename T>
void launch_block_backward(const KernelArgs& args, const BlockSource<T>& source,
                           const NormalisationArrays& arrays) {
  const BackwardWorkspace space(args);
  launch_block_sums<T, false>(args, source, arrays, nullptr);
  launch_channel_map<T>(args, rows_of(source.blocks, args.in_type(1).shape[0]),
                        BlockDx<T>{source, args.out<T>(0), arrays, {space.a, space.b, space.c}});
}

}  // namespace tr::cuda
