// SPDX-License-Identifier: Apache-2.0
// Maximum of each window, with the cell's number; the backward pass gathers, so that overlapping
// windows add in a fixed order.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/pixel_map.cuh"
#include "backend/cuda/pool_window.cuh"

namespace tr::cuda {
namespace {

template <typename T>
struct MaxPool {
  const T* x;
  T* y;
  std::uint8_t* index;
  PixelMap in, out;
  PoolWindow window;

  template <int N>
  __device__ void run(std::uint32_t row, std::int64_t c) const {
    const Pixel p = pixel_of(row, out);
    const int h0 = window.begin(0, p.h), w0 = window.begin(1, p.w);
    Largest<T, N> largest;
    for (int r = 0; r < window.kernel[0]; ++r) {
      if (unsigned(h0 + r) >= in.height) continue;
      for (int s = 0; s < window.kernel[1]; ++s) {
        if (unsigned(w0 + s) >= in.width) continue;
        largest.take(load<N>(x + in.at(p.n, h0 + r, w0 + s, c)),
                     std::uint8_t(r * window.kernel[1] + s));
      }
    }
    const std::int64_t to = std::int64_t(row) * out.channels + c;
    store(y + to, largest.values);
    store(index + to, largest.cells);
  }
};

template <typename T>
struct MaxPoolBackward {
  const T* dy;
  const std::uint8_t* index;
  T* dx;
  PixelMap in, out;
  PoolWindow window;

  template <int N>
  __device__ void run(std::uint32_t row, std::int64_t c) const {
    const Pixel p = pixel_of(row, in);
    float sum[N];
    gather_gradients<N>(dy, index, in, out, window, p, c, sum);
    Vector<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.v[j] = from_float<T>(sum[j]);
    store(dx + std::int64_t(row) * in.channels + c, result);
  }
};

void launch_maxpool(const KernelArgs& args) {
  const TensorType &x = args.in_type(0), &y = args.out_type(0);
  const PoolWindow window = PoolWindow::of(pool_geometry(args.attrs(), x));
  dispatch_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_pixel_map<T>(args, ChannelRows::of(y.shape),
                        MaxPool<T>{args.in<T>(0), args.out<T>(0), args.out<std::uint8_t>(1),
                                   PixelMap::of(x.shape), PixelMap::of(y.shape), window});
  });
}

void launch_maxpool_backward(const KernelArgs& args) {
  const TensorType &dy = args.in_type(0), &dx = args.out_type(0);
  const PoolWindow window = PoolWindow::of(pool_geometry(args.attrs(), dx));
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
