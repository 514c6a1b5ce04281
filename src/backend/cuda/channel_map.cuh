// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels over rows of channels: maps, and pairs of sums a channel in a fixed order.

#include <cstdint>
#include <type_traits>

#include "backend/cuda/channel_rows.h"
#include "backend/cuda/map.cuh"

namespace tr::cuda {

constexpr int kRowsInFlight =
    4;  // of most maps: enough loads under way to fill the memory's bandwidth

/// `N` floats of an array of channels, which begins at a multiple of 16 bytes.
template <int N>
struct Floats {
  float v[N];

  __device__ static Floats load(const float* from) {
    constexpr int kWide = N % 4 == 0 ? 4 : 1;
    Floats out;
#pragma unroll
    for (int j = 0; j < N; j += kWide) {
      const Vector<float, kWide> some = cuda::load<kWide>(from + j);
#pragma unroll
      for (int k = 0; k < kWide; ++k) out.v[j + k] = some.v[k];
    }
    return out;
  }
};

/// Channels c ... c + N - 1 of a row; i is the first one's element.
struct Place {
  std::int64_t row, c, i;
};

/// A map f has: kInFlight, the rows that a thread loads before it uses the first; channel<N>(c),
/// what it knows of its channels; load<N>(place), what it reads there; finish<N>(channel, loaded,
/// place), which computes and stores.
template <int N, typename F>
__global__ void channel_map_kernel(F f, std::int64_t rows, std::int64_t channels) {
  constexpr int kRows = F::kInFlight;
  const std::int64_t c = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  if (c >= channels) return;
  const auto channel = f.template channel<N>(c);
  const std::int64_t first = std::int64_t(blockIdx.x) * blockDim.y * kRows + threadIdx.y;
  decltype(f.template load<N>(Place{})) loaded[kRows];
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
    const std::int64_t row = first + std::int64_t(u) * blockDim.y;
    if (row < rows) loaded[u] = f.template load<N>(Place{row, c, row * channels + c});
  }
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
    const std::int64_t row = first + std::int64_t(u) * blockDim.y;
    if (row < rows) f.template finish<N>(channel, loaded[u], Place{row, c, row * channels + c});
  }
}

/// Two sums a channel: partial[slice, 0 or 1, channel] over the rows of each slice. f has what
/// a map has, but add<N>(channel, loaded, place, a, b), which adds to both sums, for finish().
template <int N, typename F>
__global__ void channel_sums_kernel(F f, float* partial, std::int64_t rows, std::int64_t channels,
                                    std::int64_t rows_of_slice) {
  constexpr int kRows = F::kInFlight;
  __shared__ float shared[2 * N * kRowThreads];
  const std::int64_t c = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  float a[N] = {}, b[N] = {};
  if (c < channels) {
    const auto channel = f.template channel<N>(c);
    const std::int64_t begin = blockIdx.x * rows_of_slice;
    const std::int64_t end = begin + rows_of_slice < rows ? begin + rows_of_slice : rows;
    const std::int64_t step = blockDim.y;
    for (std::int64_t r = begin + threadIdx.y; r < end; r += step * kRows) {
      decltype(f.template load<N>(Place{})) loaded[kRows];
#pragma unroll
      for (int u = 0; u < kRows; ++u) {
        const std::int64_t row = r + u * step;
        if (row < end) loaded[u] = f.template load<N>(Place{row, c, row * channels + c});
      }
#pragma unroll
      for (int u = 0; u < kRows; ++u) {
        const std::int64_t row = r + u * step;
        if (row < end) {
          f.template add<N>(channel, loaded[u], Place{row, c, row * channels + c}, a, b);
        }
      }
    }
  }
  const int threads = int(blockDim.x * blockDim.y);
  const int thread = int(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    shared[j * threads + thread] = a[j];
    shared[(N + j) * threads + thread] = b[j];
  }
  __syncthreads();
  const int across = int(blockDim.x), down = int(blockDim.y);
  for (int i = thread; i < 2 * N * across; i += threads) {
    const int which = i / (N * across), j = i % N, x = i / N % across;
    const std::int64_t to = (std::int64_t(blockIdx.y) * across + x) * N + j;
    if (to >= channels) continue;
    float sum = 0;
    for (int y = 0; y < down; ++y) sum += shared[(which * N + j) * threads + y * across + x];
    partial[(std::int64_t(blockIdx.x) * 2 + which) * channels + to] = sum;
  }
}

constexpr int kFinishAcross = 8, kFinishDown = 128;

/// Adds the slices up, in double, and calls finish(channel, a, b) for each channel.
template <typename Finish>
__global__ void finish_sums_kernel(const float* partial, std::int64_t slices, std::int64_t channels,
                                   Finish finish) {
  __shared__ double shared[2][kFinishDown][kFinishAcross];
  const std::int64_t c = std::int64_t(blockIdx.x) * kFinishAcross + threadIdx.x;
  double a = 0, b = 0;
  if (c < channels) {
    for (std::int64_t s = threadIdx.y; s < slices; s += kFinishDown) {
      a += partial[2 * s * channels + c];
      b += partial[(2 * s + 1) * channels + c];
    }
  }
  shared[0][threadIdx.y][threadIdx.x] = a;
  shared[1][threadIdx.y][threadIdx.x] = b;
  __syncthreads();
  for (int half = kFinishDown / 2; half > 0; half /= 2) {
    if (int(threadIdx.y) < half) {
      shared[0][threadIdx.y][threadIdx.x] += shared[0][threadIdx.y + half][threadIdx.x];
      shared[1][threadIdx.y][threadIdx.x] += shared[1][threadIdx.y + half][threadIdx.x];
    }
    __syncthreads();
  }
  if (threadIdx.y == 0 && c < channels) {
    finish(c, shared[0][0][threadIdx.x], shared[1][0][threadIdx.x]);
  }
}

/// Channels of a vector of 16 bytes.
template <typename T>
constexpr int kChannelVector = kVectorBytes / int(sizeof(T));

/// The same where only the number of channels is known: 1 if it is no multiple of the vector.
inline int channel_vector(DType dtype, std::int64_t channels) {
  const int wide = kVectorBytes / int(size_of(dtype));
  return channels % wide == 0 ? wide : 1;
}

/// Calls f(std::integral_constant<int, N>) with the vector that rows of `channels` of T allow.
template <typename T, typename F>
void dispatch_channels(std::int64_t channels, F&& f) {
  if (channels % kChannelVector<T> == 0) {
    f(std::integral_constant<int, kChannelVector<T>>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

template <typename T, typename F>
void launch_channel_map(const KernelArgs& args, const ChannelRows& shape, const F& f) {
  if (shape.rows == 0) return;
  dispatch_channels<T>(shape.channels, [&](auto vector) {
    launch(args, channel_map_shape(shape, vector(), F::kInFlight), channel_map_kernel<vector(), F>,
           f, shape.rows, shape.channels);
  });
}

/// Bytes of the partial sums of launch_channel_sums().
inline std::int64_t partial_bytes(const ChannelRows& shape, DType dtype) {
  return num_slices(shape, channel_vector(dtype, shape.channels)) * 2 * shape.channels *
         std::int64_t(sizeof(float));
}

/// Sums by slice into `partial`; returns the number of slices.
template <typename T, typename F>
std::int64_t launch_channel_sums(const KernelArgs& args, const ChannelRows& shape, const F& f,
                                 float* partial) {
  std::int64_t slices = 1;
  dispatch_channels<T>(shape.channels, [&](auto vector) {
    slices = num_slices(shape, vector());
    LaunchShape launch_shape = channel_block(shape, vector());
    launch_shape.grid.x = unsigned(slices);
    launch(args, launch_shape, channel_sums_kernel<vector(), F>, f, partial, shape.rows,
           shape.channels, ceil_div(shape.rows, slices));
  });
  return slices;
}

template <typename Finish>
void launch_finish_sums(const KernelArgs& args, const float* partial, std::int64_t slices,
                        std::int64_t channels, const Finish& finish) {
  LaunchShape shape;
  shape.block = dim3(kFinishAcross, kFinishDown);
  shape.grid.x = unsigned(ceil_div<std::int64_t>(channels, kFinishAcross));
  launch(args, shape, finish_sums_kernel<Finish>, partial, slices, channels, finish);
}

}  // namespace tr::cuda
