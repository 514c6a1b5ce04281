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
  // From the last row to the first: what a kernel has just read or written there is still in the
  // second-level cache, and what is left in it is where the next one begins.
  const std::int64_t block = gridDim.x - 1 - blockIdx.x;
  const std::int64_t first = block * blockDim.y * kRows + threadIdx.y;
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

/// How many sums a channel f makes: kSums, 2 where it does not say.
template <typename F>
constexpr int sums_of() {
  if constexpr (requires { F::kSums; }) return F::kSums;
  return 2;
}

/// Sums a channel: partial[slice, number of the sum, channel] over the rows of each slice, which
/// are dealt out in turns, so that all blocks together walk from the first row to the last. f has
/// what a map has, but add<N>(channel, loaded, place, sums), which adds to sums[number][0 ... N -
/// 1], for finish().
template <int N, typename F>
__global__ void __launch_bounds__(kRowThreads, 2)
    channel_sums_kernel(F f, float* partial, std::int64_t rows, std::int64_t channels) {
  constexpr int kRows = F::kInFlight, kSums = sums_of<F>();
  __shared__ float shared[kSums * N * kRowThreads];
  const std::int64_t c = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  float sums[kSums][N] = {};
  if (c < channels) {
    const auto channel = f.template channel<N>(c);
    const std::int64_t step = blockDim.y, turn = step * kRows;
    for (std::int64_t r = blockIdx.x * turn + threadIdx.y; r < rows; r += gridDim.x * turn) {
      decltype(f.template load<N>(Place{})) loaded[kRows];
      // Behind the last row it is read again: a branch before each load would let the compiler
      // unpack a row before the next one's loads are under way.
#pragma unroll
      for (int u = 0; u < kRows; ++u) {
        const std::int64_t row = min(r + u * step, rows - 1);
        loaded[u] = f.template load<N>(Place{row, c, row * channels + c});
      }
#pragma unroll
      for (int u = 0; u < kRows; ++u) {
        const std::int64_t row = r + u * step;
        if (row < rows) {
          f.template add<N>(channel, loaded[u], Place{row, c, row * channels + c}, sums);
        }
      }
    }
  }
  const int threads = int(blockDim.x * blockDim.y);
  const int thread = int(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
  for (int j = 0; j < kSums * N; ++j) shared[j * threads + thread] = sums[j / N][j % N];
  __syncthreads();
  const int across = int(blockDim.x), down = int(blockDim.y);
  for (int i = thread; i < kSums * N * across; i += threads) {
    const int which = i / (N * across), j = i % N, x = i / N % across;
    const std::int64_t to = (std::int64_t(blockIdx.y) * across + x) * N + j;
    if (to >= channels) continue;
    float sum = 0;
    for (int y = 0; y < down; ++y) sum += shared[(which * N + j) * threads + y * across + x];
    partial[(std::int64_t(blockIdx.x) * kSums + which) * channels + to] = sum;
  }
}

/// Partial sums of slices: partial[slice, number of the sum, channel].
struct PartialSums {
  const float* partial;
  std::int64_t slices;
  int of_slice = 2;
};

constexpr int kFinishAcross = 8, kFinishDown = 128;

/// Adds sums 0 and `second` of the slices up, in double, and calls finish(channel, a, b) for each
/// channel.
template <typename Finish>
__global__ void __launch_bounds__(kFinishAcross* kFinishDown)
    finish_sums_kernel(PartialSums sums, int second, std::int64_t channels, Finish finish) {
  __shared__ double shared[2][kFinishDown][kFinishAcross];
  const std::int64_t c = std::int64_t(blockIdx.x) * kFinishAcross + threadIdx.x;
  double a = 0, b = 0;
  if (c < channels) {
    for (std::int64_t s = threadIdx.y; s < sums.slices; s += kFinishDown) {
      a += sums.partial[sums.of_slice * s * channels + c];
      b += sums.partial[(sums.of_slice * s + second) * channels + c];
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
inline std::int64_t partial_bytes(const ChannelRows& shape, DType dtype, int of_slice = 2) {
  return num_slices(shape, channel_vector(dtype, shape.channels)) * of_slice * shape.channels *
         std::int64_t(sizeof(float));
}

/// Sums by slice, in `partial`.
template <typename T, typename F>
PartialSums launch_channel_sums(const KernelArgs& args, const ChannelRows& shape, const F& f,
                                float* partial) {
  std::int64_t slices = 1;
  dispatch_channels<T>(shape.channels, [&](auto vector) {
    slices = num_slices(shape, vector());
    LaunchShape launch_shape = channel_block(shape, vector());
    launch_shape.grid.x = unsigned(slices);
    launch(args, launch_shape, channel_sums_kernel<vector(), F>, f, partial, shape.rows,
           shape.channels);
  });
  return {partial, slices, sums_of<F>()};
}

template <typename Finish>
void launch_finish_sums(const KernelArgs& args, const PartialSums& sums, std::int64_t channels,
                        const Finish& finish, int second = 1) {
  LaunchShape shape;
  shape.block = dim3(kFinishAcross, kFinishDown);
  shape.grid.x = unsigned(ceil_div<std::int64_t>(channels, kFinishAcross));
  launch(args, shape, finish_sums_kernel<Finish>, sums, second, channels, finish);
}

}  // namespace tr::cuda
