// SPDX-License-Identifier: Apache-2.0
// Means of windows: avgpool, adaptive_avgpool, gap; sums in fp32 in a fixed order, the backward
// passes gather.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/pixel_map.cuh"
#include "ops/conv_geometry.h"

namespace tr::cuda {
namespace {

struct Range {
  int begin, end;
  __device__ int size() const { return end - begin; }
};

/// Windows of avgpool along one axis.
struct StridedAxis {
  int size, count, kernel, stride, padding;
  bool count_padding;

  __device__ Range cells(int index) const {
    const int from = index * stride - padding, to = from + kernel;
    return {from < 0 ? 0 : from, to > size ? size : to};
  }
  /// What the window's length counts in the divisor.
  __device__ int divisor(int index) const {
    if (!count_padding) return cells(index).size();
    const int from = index * stride - padding, to = from + kernel;
    return (to > size + padding ? size + padding : to) - from;
  }
  /// Windows that hold the cell, [begin, end).
  __device__ Range windows(int cell) const {
    const int from = cell + padding - kernel + 1;
    const int last = (cell + padding) / stride + 1;
    return {from <= 0 ? 0 : (from + stride - 1) / stride, last > count ? count : last};
  }
};

/// Windows of adaptive_avgpool along one axis.
struct AdaptiveAxis {
  int size, count;

  __device__ Range cells(int index) const {
    return {int(AdaptiveGeometry::begin(index, size, count)),
            int(AdaptiveGeometry::end(index, size, count))};
  }
  __device__ int divisor(int index) const { return cells(index).size(); }
  /// The smallest index whose window ends behind the cell, and the first that begins behind it.
  __device__ Range windows(int cell) const {
    int begin = int(std::int64_t(cell) * count / size), end = begin;
    while (begin > 0 && cells(begin - 1).end > cell) --begin;
    while (end < count && cells(end).begin <= cell) ++end;
    return {begin, end};
  }
};

template <typename T, typename Axis>
struct AveragePool {
  const T* x;
  T* y;
  PixelMap in, out;
  Axis vertical, horizontal;

  template <int N>
  __device__ void run(std::uint32_t row, std::int64_t c) const {
    const Pixel p = pixel_of(row, out);
    const Range hs = vertical.cells(p.h), ws = horizontal.cells(p.w);
    float sum[N] = {};
    for (int h = hs.begin; h < hs.end; ++h) {
      for (int w = ws.begin; w < ws.end; ++w) {
        const Vector<T, N> values = load<N>(x + in.at(p.n, h, w, c));
#pragma unroll
        for (int j = 0; j < N; ++j) sum[j] += to_float(values.v[j]);
      }
    }
    const auto divisor = float(vertical.divisor(p.h) * horizontal.divisor(p.w));
    Vector<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.v[j] = from_float<T>(sum[j] / divisor);
    store(y + std::int64_t(row) * out.channels + c, result);
  }
};

template <typename T, typename Axis>
struct AveragePoolBackward {
  const T* dy;
  T* dx;
  PixelMap in, out;
  Axis vertical, horizontal;

  template <int N>
  __device__ void run(std::uint32_t row, std::int64_t c) const {
    const Pixel p = pixel_of(row, in);
    const Range hs = vertical.windows(p.h), ws = horizontal.windows(p.w);
    float sum[N] = {};
    for (int h = hs.begin; h < hs.end; ++h) {
      for (int w = ws.begin; w < ws.end; ++w) {
        const auto divisor = float(vertical.divisor(h) * horizontal.divisor(w));
        const Vector<T, N> values = load<N>(dy + out.at(p.n, h, w, c));
#pragma unroll
        for (int j = 0; j < N; ++j) sum[j] += to_float(values.v[j]) / divisor;
      }
    }
    Vector<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.v[j] = from_float<T>(sum[j]);
    store(dx + std::int64_t(row) * in.channels + c, result);
  }
};

StridedAxis strided_axis(const PoolGeometry& g, int axis, const Attrs& attrs) {
  return {int(axis == 0 ? g.height : g.width),
          int(axis == 0 ? g.out_height : g.out_width),
          int(g.kernel[axis]),
          int(g.stride[axis]),
          int(g.padding[axis]),
          attrs.flag("count_include_pad")};
}

template <typename Axis>
void launch_forward(const KernelArgs& args, const Axis& vertical, const Axis& horizontal) {
  const TensorType &x = args.in_type(0), &y = args.out_type(0);
  dispatch_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_pixel_map<T>(args, ChannelRows::of(y.shape),
                        AveragePool<T, Axis>{args.in<T>(0), args.out<T>(0), PixelMap::of(x.shape),
                                             PixelMap::of(y.shape), vertical, horizontal});
  });
}

template <typename Axis>
void launch_backward(const KernelArgs& args, const Axis& vertical, const Axis& horizontal) {
  const TensorType &dy = args.in_type(0), &dx = args.out_type(0);
  dispatch_float(dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_pixel_map<T>(
        args, ChannelRows::of(dx.shape),
        AveragePoolBackward<T, Axis>{args.in<T>(0), args.out<T>(0), PixelMap::of(dx.shape),
                                     PixelMap::of(dy.shape), vertical, horizontal});
  });
}

void launch_avgpool(const KernelArgs& args) {
  const PoolGeometry g = pool_geometry(args.attrs(), args.in_type(0));
  launch_forward(args, strided_axis(g, 0, args.attrs()), strided_axis(g, 1, args.attrs()));
}
void launch_avgpool_backward(const KernelArgs& args) {
  const PoolGeometry g = pool_geometry(args.attrs(), args.out_type(0));
  launch_backward(args, strided_axis(g, 0, args.attrs()), strided_axis(g, 1, args.attrs()));
}
void launch_adaptive(const KernelArgs& args) {
  const Shape &x = args.in_type(0).shape, &y = args.out_type(0).shape;
  launch_forward(args, AdaptiveAxis{int(x[1]), int(y[1])}, AdaptiveAxis{int(x[2]), int(y[2])});
}
void launch_adaptive_backward(const KernelArgs& args) {
  const Shape &x = args.out_type(0).shape, &y = args.in_type(0).shape;
  launch_backward(args, AdaptiveAxis{int(x[1]), int(y[1])}, AdaptiveAxis{int(x[2]), int(y[2])});
}

/// Block x: an image; a thread sums every blockDim.y-th of its pixels.
template <int N, typename T>
__global__ void gap_kernel(const T* x, T* y, std::int64_t pixels, std::int64_t channels) {
  __shared__ float shared[N * kRowThreads];
  const std::int64_t c = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  float sum[N] = {};
  if (c < channels) {
    const T* from = x + blockIdx.x * pixels * channels + c;
    for (std::int64_t p = threadIdx.y; p < pixels; p += blockDim.y) {
      const Vector<T, N> values = load<N>(from + p * channels);
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += to_float(values.v[j]);
    }
  }
  const int threads = int(blockDim.x * blockDim.y), across = int(blockDim.x);
  const int thread = int(threadIdx.y) * across + int(threadIdx.x);
#pragma unroll
  for (int j = 0; j < N; ++j) shared[j * threads + thread] = sum[j];
  __syncthreads();
  if (threadIdx.y != 0 || c >= channels) return;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float total = 0;
    for (int r = 0; r < int(blockDim.y); ++r) total += shared[j * threads + r * across + thread];
    y[blockIdx.x * channels + c + j] = from_float<T>(total / float(pixels));
  }
}

/// Block x: an image; a thread divides once and writes every blockDim.y-th of its pixels.
template <int N, typename T>
__global__ void gap_backward_kernel(const T* dy, T* dx, std::int64_t pixels,
                                    std::int64_t channels) {
  const std::int64_t c = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  if (c >= channels) return;
  Vector<T, N> values = load<N>(dy + blockIdx.x * channels + c);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    values.v[j] = from_float<T>(to_float(values.v[j]) / float(pixels));
  }
  T* to = dx + blockIdx.x * pixels * channels + c;
  for (std::int64_t p = threadIdx.y; p < pixels; p += blockDim.y) store(to + p * channels, values);
}

/// Calls f(vector, launch shape) for blocks of the images of x.
template <typename T, typename F>
void dispatch_images(const Shape& x, F&& f) {
  if (x[0] == 0) return;
  dispatch_channels<T>(x[3], [&](auto vector) {
    LaunchShape shape = channel_block({x[1] * x[2], x[3]}, vector());
    shape.grid.x = unsigned(x[0]);
    f(vector, shape);
  });
}

void launch_gap(const KernelArgs& args) {
  const Shape& x = args.in_type(0).shape;
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_images<T>(x, [&](auto vector, const LaunchShape& shape) {
      launch(args, shape, gap_kernel<vector(), T>, args.in<T>(0), args.out<T>(0), x[1] * x[2],
             x[3]);
    });
  });
}

void launch_gap_backward(const KernelArgs& args) {
  const Shape& x = args.out_type(0).shape;
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_images<T>(x, [&](auto vector, const LaunchShape& shape) {
      launch(args, shape, gap_backward_kernel<vector(), T>, args.in<T>(0), args.out<T>(0),
             x[1] * x[2], x[3]);
    });
  });
}

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  const std::pair<const char*, void (*)(const KernelArgs&)> kernels[] = {
      {"avgpool", launch_avgpool},
      {"avgpool_backward", launch_avgpool_backward},
      {"adaptive_avgpool", launch_adaptive},
      {"adaptive_avgpool_backward", launch_adaptive_backward},
      {"gap", launch_gap},
      {"gap_backward", launch_gap_backward}};
  for (const auto& [op, launch] : kernels) {
    all.emplace_back(simple_kernel(op, launch, refuse_many_pixels));
  }
  return all;
}();

}  // namespace
}  // namespace tr::cuda
