// SPDX-License-Identifier: Apache-2.0
// Maximum of each window, with the cell's number; the backward pass gathers, so that overlapping
// windows add in a fixed order.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/pixel_map.cuh"
#include "ops/conv_geometry.h"

namespace tr::cuda {
namespace {

struct Window {
  int kernel[2], stride[2], padding[2];

  static Window of(const PoolGeometry& g) {
    Window w;
    for (int i = 0; i < 2; ++i) {
      w.kernel[i] = int(g.kernel[i]);
      w.stride[i] = int(g.stride[i]);
      w.padding[i] = int(g.padding[i]);
    }
    return w;
  }
  /// Where window `index` begins along an axis; negative in the padding.
  __device__ int begin(int axis, int index) const { return index * stride[axis] - padding[axis]; }
  /// First window that holds cell `cell`, and the last; clipped by the caller's count.
  __device__ int first(int axis, int cell) const {
    const int from = cell + padding[axis] - kernel[axis] + 1;
    return from <= 0 ? 0 : (from + stride[axis] - 1) / stride[axis];
  }
  __device__ int last(int axis, int cell, int count) const {
    const int at = (cell + padding[axis]) / stride[axis];
    return at < count ? at : count - 1;
  }
};

template <typename T>
struct MaxPool {
  const T* x;
  T* y;
  std::uint8_t* index;
  PixelMap in, out;
  Window window;

  template <int N>
  __device__ void run(std::uint32_t row, std::int64_t c) const {
    const Pixel p = pixel_of(row, out);
    const int h0 = window.begin(0, p.h), w0 = window.begin(1, p.w);
    Vector<T, N> best;
    Vector<std::uint8_t, N> cells;
    bool any = false;
    for (int r = 0; r < window.kernel[0]; ++r) {
      if (unsigned(h0 + r) >= in.height) continue;
      for (int s = 0; s < window.kernel[1]; ++s) {
        if (unsigned(w0 + s) >= in.width) continue;
        const Vector<T, N> values = load<N>(x + in.at(p.n, h0 + r, w0 + s, c));
        const auto cell = std::uint8_t(r * window.kernel[1] + s);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const float value = to_float(values.v[j]);
          // NaN wins, as in PyTorch.
          if (!any || value > to_float(best.v[j]) || value != value) {
            best.v[j] = values.v[j];
            cells.v[j] = cell;
          }
        }
        any = true;
      }
    }
    const std::int64_t to = std::int64_t(row) * out.channels + c;
    store(y + to, best);
    store(index + to, cells);
  }
};

template <typename T>
struct MaxPoolBackward {
  const T* dy;
  const std::uint8_t* index;
  T* dx;
  PixelMap in, out;
  Window window;

  template <int N>
  __device__ void run(std::uint32_t row, std::int64_t c) const {
    const Pixel p = pixel_of(row, in);
    float sum[N] = {};
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
    Vector<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.v[j] = from_float<T>(sum[j]);
    store(dx + std::int64_t(row) * in.channels + c, result);
  }
};

void launch_maxpool(const KernelArgs& args) {
  const TensorType &x = args.in_type(0), &y = args.out_type(0);
  const Window window = Window::of(pool_geometry(args.attrs(), x));
  dispatch_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_pixel_map<T>(args, ChannelRows::of(y.shape),
                        MaxPool<T>{args.in<T>(0), args.out<T>(0), args.out<std::uint8_t>(1),
                                   PixelMap::of(x.shape), PixelMap::of(y.shape), window});
  });
}

void launch_maxpool_backward(const KernelArgs& args) {
  const TensorType &dy = args.in_type(0), &dx = args.out_type(0);
  const Window window = Window::of(pool_geometry(args.attrs(), dx));
  dispatch_float(dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_pixel_map<T>(args, ChannelRows::of(dx.shape),
                        MaxPoolBackward<T>{args.in<T>(0), args.in<std::uint8_t>(1), args.out<T>(0),
                                           PixelMap::of(dx.shape), PixelMap::of(dy.shape), window});
  });
}

const KernelRegistration kMaxpool{simple_kernel("maxpool", launch_maxpool, refuse_many_pixels)};
const KernelRegistration kMaxpoolBackward{
    simple_kernel("maxpool_backward", launch_maxpool_backward, refuse_many_pixels)};

}  // namespace
}  // namespace tr::cuda
