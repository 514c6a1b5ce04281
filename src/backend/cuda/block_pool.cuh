// SPDX-License-Identifier: Apache-2.0
#pragma once

// Batch norm, rectifier and max pooling by windows of 3x3 cells at stride 2 with a border of one
// cell, as residual networks begin: 2x2 blocks of cells lie in the four windows around them, and
// windows one below the other share a row, so that little is read or normalised twice.

#include "backend/cuda/norm_gradient.cuh"
#include "backend/cuda/pool_window.cuh"

namespace tr::cuda {

/// The largest of a row of three cells in each of N channels, and its column in the window.
template <int N>
struct RowLargest {
  float value[N];
  unsigned column[N];
  bool any = false;

  /// The first of equal ones stays; NaN wins, as in PyTorch.
  __device__ void take(int j, float more, unsigned at) {
    if (any && !(more > value[j]) && more == more) return;
    value[j] = more;
    column[j] = at;
  }
};

/// A thread makes kDown windows of one column of y, one below the other.
template <typename T>
struct StripForward {
  static constexpr int kInFlight = 1, kDown = 4, kSide = 3;
  const T* x;
  T* y;
  std::uint8_t* index;
  NormalisationArrays arrays;
  PixelMap in, out, strips;

  template <int N>
  __device__ Normalisation<N> channel(std::int64_t c) const {
    return arrays.load<N>(c);
  }
  template <int N>
  __device__ Pixel load(const Place& at) const {
    return pixel_of(std::uint32_t(at.row), strips);
  }
  template <int N>
  __device__ void finish(const Normalisation<N>& norm, const Pixel& strip, const Place& at) const {
    const int first = strip.h * kDown, last = min(first + kDown, int(out.height));
    RowLargest<N> above = row_of<N>(norm, strip, 2 * first - 1, at.c);
    for (int oh = first; oh < last; ++oh) {
      const RowLargest<N> middle = row_of<N>(norm, strip, 2 * oh, at.c);
      const RowLargest<N> below = row_of<N>(norm, strip, 2 * oh + 1, at.c);
      Vector<T, N> values;
      Vector<std::uint8_t, N> cells;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        RowLargest<1> best;
        take_row(best, above.any, above.value[j], above.column[j]);
        take_row(best, middle.any, middle.value[j], kSide + middle.column[j]);
        take_row(best, below.any, below.value[j], 2 * kSide + below.column[j]);
        values.v[j] = from_float<T>(best.value[0]);
        cells.v[j] = std::uint8_t(best.column[0]);
      }
      const std::int64_t to = out.at(strip.n, oh, strip.w, at.c);
      store(y + to, values);
      store(index + to, cells);
      above = below;
    }
  }

 private:
  __device__ static void take_row(RowLargest<1>& best, bool any, float value, unsigned cell) {
    if (!any) return;
    best.take(0, value, cell);
    best.any = true;
  }
  template <int N>
  __device__ RowLargest<N> row_of(const Normalisation<N>& norm, const Pixel& strip, int h,
                                  std::int64_t c) const {
    RowLargest<N> row;
    if (unsigned(h) >= in.height) return row;
    Vector<T, N> cells[kSide];
    bool inside[kSide];
#pragma unroll
    for (int s = 0; s < kSide; ++s) {
      const int w = 2 * strip.w - 1 + s;
      inside[s] = unsigned(w) < in.width;
      if (inside[s]) cells[s] = cuda::load<N>(x + in.at(strip.n, h, w, c));
    }
#pragma unroll
    for (int s = 0; s < kSide; ++s) {
      if (!inside[s]) continue;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float value = to_float(from_float<T>(norm(j, to_float(cells[s].v[j]))));
        row.take(j, value <= 0 ? 0 : value, unsigned(s));
      }
      row.any = true;
    }
    return row;
  }
};

constexpr int kBlockCells = 4;  // 2x2, and as many windows around them

template <typename T, int N>
struct BlockLoaded {
  Vector<T, N> x[kBlockCells], dy[kBlockCells];
  Vector<std::uint8_t, N> winner[kBlockCells];
  unsigned inside;  // a bit for each cell of the picture
};

/// The gradients of a block's cells: those of its windows, where the rectifier let them through.
template <typename T>
struct BlockSource {
  const T *dy, *x;
  const std::uint8_t* index;
  PixelMap in, out, blocks;

  template <int N>
  __device__ BlockLoaded<T, N> load(const Place& at) const {
    const Pixel block = pixel_of(std::uint32_t(at.row), blocks);
    BlockLoaded<T, N> loaded{};
#pragma unroll
    for (int k = 0; k < kBlockCells; ++k) {
      const int h = 2 * block.h + k / 2, w = 2 * block.w + k % 2;
      if (h < int(in.height) && w < int(in.width)) {
        loaded.x[k] = cuda::load<N>(x + in.at(block.n, h, w, at.c));
        loaded.inside |= 1u << k;
      }
      const int oh = block.h + k / 2, ow = block.w + k % 2;
      if (oh < int(out.height) && ow < int(out.width)) {
        const std::int64_t from = out.at(block.n, oh, ow, at.c);
        loaded.dy[k] = cuda::load<N>(dy + from);
        loaded.winner[k] = cuda::load<N>(index + from);
      }  // else its gradient is zero
    }
    return loaded;
  }
  /// The element of cell k, channel c.
  __device__ std::int64_t cell(const Pixel& block, int k, std::int64_t c) const {
    return in.at(block.n, 2 * block.h + k / 2, 2 * block.w + k % 2, c);
  }
  /// Of cell k, channel j.
  template <int N>
  __device__ static float dz(const Normalisation<N>& norm, const BlockLoaded<T, N>& in, int k,
                             int j) {
    const int down = k / 2, right = k % 2;
    float sum = 0;
#pragma unroll
    for (int v = 0; v <= down; ++v) {
#pragma unroll
      for (int u = 0; u <= right; ++u) {
        const int cell = (down + 1 - 2 * v) * 3 + right + 1 - 2 * u;
        const int window = 2 * v + u;
        if (in.winner[window].v[j] == cell) sum += to_float(in.dy[window].v[j]);
      }
    }
    const float y = to_float(from_float<T>(norm(j, to_float(in.x[k].v[j]))));
    // Rounded as the gradient in front of the pooling is where nothing is fused.
    return y <= 0 ? 0 : to_float(from_float<T>(sum));
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
  __device__ void add(const Normalisation<N>& norm, const BlockLoaded<T, N>& in, const Place& at,
                      float (&sums)[2][N]) const {
    const Pixel block = pixel_of(std::uint32_t(at.row), source.blocks);
#pragma unroll
    for (int k = 0; k < kBlockCells; ++k) {
      if ((in.inside >> k & 1) == 0) continue;
      Vector<T, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float d = source.dz(norm, in, k, j);
        sums[0][j] += d;
        sums[1][j] += d * (to_float(in.x[k].v[j]) - norm.mean.v[j]);
        out.v[j] = from_float<T>(d);
      }
      if constexpr (kStore) store(stored + source.cell(block, k, at.c), out);
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
                         const Place& at) const {
    const Pixel block = pixel_of(std::uint32_t(at.row), source.blocks);
#pragma unroll
    for (int k = 0; k < kBlockCells; ++k) {
      if ((in.inside >> k & 1) == 0) continue;
      Vector<T, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float d = source.dz(channel.norm, in, k, j);
        out.v[j] = from_float<T>(channel(j, d, to_float(in.x[k].v[j])));
      }
      store(dx + source.cell(block, k, at.c), out);
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
