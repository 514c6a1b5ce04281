// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/cuda/pixel_map.cuh"
#include "ops/conv_geometry.h"

namespace tr::cuda {

/// The windows of a pooling, as kernels walk through them.
struct PoolWindow {
  int kernel[2], stride[2], padding[2];

  static PoolWindow of(const PoolGeometry& g) {
    PoolWindow w;
    for (int i = 0; i < 2; ++i) {
      w.kernel[i] = int(g.kernel[i]);
      w.stride[i] = int(g.stride[i]);
      w.padding[i] = int(g.padding[i]);
    }
    return w;
  }
  /// Where window `index` begins along an axis; negative in the padding.
  __device__ int begin(int axis, int index) const { return index * stride[axis] - padding[axis]; }
  /// First window that holds cell `cell`, and the last of `count`.
  __device__ int first(int axis, int cell) const {
    const int from = cell + padding[axis] - kernel[axis] + 1;
    return from <= 0 ? 0 : (from + stride[axis] - 1) / stride[axis];
  }
  __device__ int last(int axis, int cell, int count) const {
    const int at = (cell + padding[axis]) / stride[axis];
    return at < count ? at : count - 1;
  }
};

/// The largest value met so far in each of N channels, and its cell.
template <typename T, int N>
struct Largest {
  Vector<T, N> values;
  Vector<std::uint8_t, N> cells;
  bool any = false;

  __device__ void take(const Vector<T, N>& more, std::uint8_t cell) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float value = to_float(more.v[j]);
      // The first of equal ones stays; NaN wins, as in PyTorch.
      if (!any || value > to_float(values.v[j]) || value != value) {
        values.v[j] = more.v[j];
        cells.v[j] = cell;
      }
    }
    any = true;
  }
};

/// sum[j] = the gradients of the windows whose maximum the pixel's channel c + j was.
template <int N, typename T>
__device__ void gather_gradients(const T* dy, const std::uint8_t* index, const PixelMap& in,
                                 const PixelMap& out, const PoolWindow& window, const Pixel& p,
                                 std::int64_t c, float* sum) {
#pragma unroll
  for (int j = 0; j < N; ++j) sum[j] = 0;
  const int last_h = window.last(0, p.h, int(out.height));
  const int last_w = window.last(1, p.w, int(out.width));
  for (int oh = window.first(0, p.h); oh <= last_h; ++oh) {
    for (int ow = window.first(1, p.w); ow <= last_w; ++ow) {
      const int cell = (p.h - window.begin(0, oh)) * window.kernel[1] + p.w - window.begin(1, ow);
      const std::int64_t from = out.at(p.n, oh, ow, c);
      const Vector<std::uint8_t, N> cells = load<N>(index + from);
      const Vector<T, N> values = load<N>(dy + from);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (cells.v[j] == cell) sum[j] += to_float(values.v[j]);
      }
    }
  }
}

}  // namespace tr::cuda
