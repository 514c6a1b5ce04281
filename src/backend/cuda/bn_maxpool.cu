// SPDX-License-Identifier: Apache-2.0
// Batch norm, rectifier and max pooling by any windows, overlapping ones too, in one pass each way:
// each window normalises its cells itself, each pixel gathers its gradient from its windows, once.
// The index is maxpool's: one byte an element of y, the cell in the window. The windows of residual
// networks have kernels of their own (strip_pool.cuh, block_pool.cuh), whose index says too where
// the rectifier let nothing through.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/norm_gradient.cuh"
#include "backend/cuda/pixel_map.cuh"
#include "backend/cuda/pool_window.cuh"
#include "backend/cuda/strip_pool.cuh"

namespace tr::cuda {
namespace {

template <typename T>
struct WindowForward {
  static constexpr int kInFlight = 1;
  const T* x;
  T* y;
  std::uint8_t* index;
  NormalisationArrays arrays;
  PixelMap in, out;
  PoolWindow window;

  template <int N>
  __device__ Normalisation<N> channel(std::int64_t c) const {
    return arrays.load<N>(c);
  }
  /// Windows differ in size: there is nothing to load ahead.
  template <int N>
  __device__ Pixel load(const Place& at) const {
    return pixel_of(std::uint32_t(at.row), out);
  }
  template <int N>
  __device__ void finish(const Normalisation<N>& norm, const Pixel& p, const Place& at) const {
    const int h0 = window.begin(0, p.h), w0 = window.begin(1, p.w);
    Largest<T, N> largest;
    for (int r = 0; r < window.kernel[0]; ++r) {
      if (unsigned(h0 + r) >= in.height) continue;
      for (int s = 0; s < window.kernel[1]; ++s) {
        if (unsigned(w0 + s) >= in.width) continue;
        Vector<T, N> values = cuda::load<N>(x + in.at(p.n, h0 + r, w0 + s, at.c));
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const T rounded = from_float<T>(norm(j, to_float(values.v[j])));
          values.v[j] = to_float(rounded) <= 0 ? from_float<T>(0) : rounded;
        }
        largest.take(values, std::uint8_t(r * window.kernel[1] + s));
      }
    }
    store(y + at.i, largest.values);
    store(index + at.i, largest.cells);
  }
};

template <int N, typename T>
struct WindowLoaded {
  float dy[N];
  Vector<T, N> x;
};

/// The gradient of a pixel: those of its windows, where the rectifier let it through.
template <typename T>
struct WindowSource {
  static constexpr int kInFlight = 2;
  const T *dy, *x;
  const std::uint8_t* index;
  PixelMap in, out;
  PoolWindow window;

  template <int N>
  __device__ WindowLoaded<N, T> load(const Place& at) const {
    WindowLoaded<N, T> loaded;
    loaded.x = cuda::load<N>(x + at.i);
    gather_gradients<N>(dy, index, in, out, window, pixel_of(std::uint32_t(at.row), in), at.c,
                        loaded.dy);
    return loaded;
  }
  template <int N>
  __device__ float dz(const Normalisation<N>& norm, const WindowLoaded<N, T>& loaded, int j) const {
    const float y = to_float(from_float<T>(norm(j, to_float(loaded.x.v[j]))));
    // Rounded as the gradient in front of the pooling is where nothing is fused.
    return y <= 0 ? 0 : to_float(from_float<T>(loaded.dy[j]));
  }
};

/// The same once it is stored.
template <typename T>
struct StoredSource {
  static constexpr int kInFlight = kRowsInFlight;
  const T *stored, *x;

  template <int N>
  struct Loaded {
    Vector<T, N> dz, x;
  };
  template <int N>
  __device__ Loaded<N> load(const Place& at) const {
    return {cuda::load<N>(stored + at.i), cuda::load<N>(x + at.i)};
  }
  template <int N>
  __device__ float dz(const Normalisation<N>&, const Loaded<N>& loaded, int j) const {
    return to_float(loaded.dz.v[j]);
  }
};

void launch_forward(const KernelArgs& args) {
  const TensorType &x_type = args.in_type(0), &y_type = args.out_type(0);
  const PoolWindow window = PoolWindow::of(pool_geometry(args.attrs(), x_type));
  dispatch_float(x_type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    launch_statistics<T>(args, ChannelRows::of(x_type.shape), x,
                         {.given = args.has_in(5) ? 5 : -1});
    if (is_block_pooling(window)) {
      const PixelMap out = PixelMap::of(y_type.shape);
      const PixelMap strips = grouped(out, StripForward<T>::kDown, 1);
      launch_channel_map<T>(args, rows_of(strips, y_type.shape[0]),
                            StripForward<T>{x,
                                            args.out<T>(0),
                                            args.out<std::uint8_t>(5),
                                            {args.out<float>(1), args.out<float>(2),
                                             args.in<float>(1), args.in<float>(2)},
                                            PixelMap::of(x_type.shape),
                                            out,
                                            strips});
      return;
    }
    launch_channel_map<T>(args, ChannelRows::of(y_type.shape),
                          WindowForward<T>{x,
                                           args.out<T>(0),
                                           args.out<std::uint8_t>(5),
                                           {args.out<float>(1), args.out<float>(2),
                                            args.in<float>(1), args.in<float>(2)},
                                           PixelMap::of(x_type.shape),
                                           PixelMap::of(y_type.shape),
                                           window});
  });
}

void launch_backward(const KernelArgs& args) {
  const TensorType &dy_type = args.in_type(0), &x_type = args.in_type(1);
  const PoolWindow window = PoolWindow::of(pool_geometry(args.attrs(), x_type));
  const NormalisationArrays arrays{args.in<float>(4), args.in<float>(5), args.in<float>(2),
                                   args.in<float>(3)};
  const ChannelRows rows = ChannelRows::of(x_type.shape);
  dispatch_float(x_type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (is_block_pooling(window)) {
      const PixelMap in = PixelMap::of(x_type.shape);
      return launch_block_backward<T>(args,
                                      {args.in<T>(0), args.in<T>(1), args.in<std::uint8_t>(6), in,
                                       PixelMap::of(dy_type.shape), grouped(in, 2, 2)},
                                      arrays);
    }
    const WindowSource<T> source{args.in<T>(0),
                                 args.in<T>(1),
                                 args.in<std::uint8_t>(6),
                                 PixelMap::of(x_type.shape),
                                 PixelMap::of(dy_type.shape),
                                 window};
    // Gathering costs more than writing what was gathered: dx holds it in between.
    T* dz = args.out<T>(0);
    launch_norm_sums<T, true>(args, rows, source, dz, arrays, false);
    launch_norm_dx<T>(args, rows, StoredSource<T>{dz, args.in<T>(1)}, arrays);
  });
}

KernelDef forward_kernel() {
  KernelDef def = simple_kernel("bn_maxpool", launch_forward, refuse_many_pixels);
  def.workspace_bytes = [](const KernelQuery& query) { return statistics_bytes(query, 5); };
  return def;
}

KernelDef backward_kernel() {
  KernelDef def = simple_kernel("bn_maxpool_backward", launch_backward, refuse_many_pixels);
  def.workspace_bytes = [](const KernelQuery& query) {
    return BackwardWorkspace::bytes(query.in[1]);
  };
  return def;
}

const KernelRegistration kForward{forward_kernel()};
const KernelRegistration kBackward{backward_kernel()};

}  // namespace
}  // namespace tr::cuda
