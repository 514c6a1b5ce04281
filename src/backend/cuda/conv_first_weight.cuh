// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums of dy times each place of the windows' rows (conv_first.cuh): what the gradient of a first
// convolution's weights is made of. dy may be gated by a rectifier's mask on the way.

#include "backend/cuda/conv_first.cuh"
#include "backend/cuda/relu_mask.cuh"

namespace tr::cuda::first_conv {

constexpr int kWeightPixels = 128;           // of a tile
constexpr std::int64_t kWeightBlocks = 396;  // three on each multiprocessor of a large device; a
                                             // constant, since sums are cut by it
constexpr int kDyStride = kOut + mma::kPadding;
constexpr int kSumsOfBlock = kOut * kRow;

/// A thread's part of a tile of dy: the same 8 channels of every 32nd pixel, 16 bytes each.
template <typename T, bool kGated>
class DyPart {
 public:
  /// Begins to copy it to shared memory.
  __device__ void copy(const T* dy, const std::uint8_t* mask, const FirstShape& s,
                       std::int64_t base, T* dys) {
    marks_ = 0;
#pragma unroll
    for (int u = 0; u < kTurns; ++u) {
      const std::int64_t p = base + pixel() + u * kRowsDown;
      const bool exists = p < s.pixels;
      const std::int64_t at =
          exists ? p * s.out_channels + std::int64_t(blockIdx.y) * kOut + chunk() * 8 : 0;
      mma::copy_async(place(dys, u), dy + at, exists);
      if (kGated && exists) marks_ |= std::uint32_t(mask[at / 8]) << (8 * u);
    }
    mma::commit_copies();
  }
  /// Drops what the rectifier held back, where it has been copied to.
  __device__ void gate(T* dys) const {
    if constexpr (kGated) {
#pragma unroll
      for (int u = 0; u < kTurns; ++u) {
        const std::uint32_t marks = marks_ >> (8 * u);
        uint4& v = *reinterpret_cast<uint4*>(place(dys, u));
        v = make_uint4(v.x & kept_bits(marks, 0), v.y & kept_bits(marks, 1),
                       v.z & kept_bits(marks, 2), v.w & kept_bits(marks, 3));
      }
    }
  }

 private:
  static constexpr int kChunks = kOut / 8, kRowsDown = kThreads / kChunks,
                       kTurns = kWeightPixels / kRowsDown;
  static_assert(kWeightPixels % kRowsDown == 0 && kTurns <= 4);

  __device__ static int pixel() { return int(threadIdx.x) / kChunks; }
  __device__ static int chunk() { return int(threadIdx.x) % kChunks; }
  __device__ static T* place(T* dys, int u) {
    return dys + (pixel() + u * kRowsDown) * kDyStride + chunk() * 8;
  }

  std::uint32_t marks_;  // a byte a turn
};

/// Sums of a warp over its share of a tile's pixels, for its 16 channels and all places.
template <typename T>
class TermSums {
 public:
  __device__ void add(const T* dys, const T* rows) {
    const int lane = int(threadIdx.x) % 32, matrix = lane / 8;
    // Tensor cores cut what they add: long sums are made by additions that round.
    float tile[kTiles][4] = {};
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const int first = (share() * kSteps + k) * 16;
      std::uint32_t a[4], b[2][4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        mma::load_matrices<true>(b[n], rows + (first + lane % 8 + matrix % 2 * 8) * kRowStride +
                                           n * 16 + matrix / 2 * 8);
      }
      mma::load_matrices<true>(
          a, dys + (first + lane % 8 + matrix / 2 * 8) * kDyStride + group() * 16 + matrix % 2 * 8);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        mma::multiply(tile[n], a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1], T());
      }
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums_[n][e] += tile[n][e];
    }
  }
  /// to[channel, place] of 64 channels, the shares added by way of `total`. By all threads.
  __device__ void finish(float* total, float* to) const {
    __syncthreads();
    if (share() == 1) each([&](int at, float value) { total[at] = value; });
    __syncthreads();
    if (share() == 0) each([&](int at, float value) { to[at] = value + total[at]; });
  }

 private:
  static constexpr int kTiles = kRow / 8, kGroups = kOut / 16, kShares = kWarpsOfBlock / kGroups,
                       kSteps = kWeightPixels / kShares / 16;
  static_assert(kShares == 2);

  __device__ static int group() { return int(threadIdx.x) / 32 % kGroups; }
  __device__ static int share() { return int(threadIdx.x) / 32 / kGroups; }

  /// Calls f(place in [channel, place], value) for each sum.
  template <typename F>
  __device__ void each(F&& f) const {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int channel = group() * 16 + lane / 4 + e / 2 * 8;
        f(channel * kRow + n * 8 + lane % 4 * 2 + e % 2, sums_[n][e]);
      }
    }
  }

  float sums_[kTiles][4] = {};
};

template <typename T>
struct TermSumsCall {
  const T* dy;
  const std::uint8_t* mask;  // null: dy goes through
  const T* picture;
  float* partial;  // [block x, block y, channel, place]
};

template <typename T>
struct Stage {
  __align__(16) T dys[kWeightPixels * kDyStride];
  __align__(16) T rows[kWeightPixels * kRowStride];
};

/// 64 channels (block y) over tiles of 128 pixels (blocks x take turns).
template <typename T, bool kGated>
__global__ void __launch_bounds__(kThreads, 3)
    term_sums_kernel(TermSumsCall<T> call, FirstShape s) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto* stages = reinterpret_cast<Stage<T>*>(bytes);
  static_assert(sizeof(Stage<T>) >= sizeof(float) * kSumsOfBlock);
  const bool gathers = threadIdx.x < kWeightPixels;
  const std::int64_t step = std::int64_t(gridDim.x) * kWeightPixels;
  std::int64_t base = std::int64_t(blockIdx.x) * kWeightPixels;
  TermSums<T> sums;
  DyPart<T, kGated> part;
  Terms<T> terms;
  const auto fetch = [&](std::int64_t at, Stage<T>& stage) {
    part.copy(call.dy, call.mask, s, at, stage.dys);
    if (gathers) terms.load(call.picture, s, at + threadIdx.x);
  };
  fetch(base, stages[0]);
  for (int turn = 0; base < s.pixels; base += step, turn ^= 1) {
    Stage<T>& stage = stages[turn];
    mma::wait_for_copies<0>();
    part.gate(stage.dys);
    if (gathers) terms.store(stage.rows + threadIdx.x * kRowStride);
    __syncthreads();  // and the other stage has been read
    fetch(base + step, stages[turn ^ 1]);
    sums.add(stage.dys, stage.rows);
  }
  mma::wait_for_copies<0>();
  sums.finish(reinterpret_cast<float*>(bytes),
              call.partial + (std::int64_t(blockIdx.x) * gridDim.y + blockIdx.y) * kSumsOfBlock);
}

inline LaunchShape weight_blocks(const FirstShape& s) {
  return blocks_of(s, kWeightPixels, kWeightBlocks);
}
inline std::int64_t term_sums_bytes(const FirstShape& s) {
  const LaunchShape shape = weight_blocks(s);
  return std::int64_t(shape.grid.x) * shape.grid.y * kSumsOfBlock * std::int64_t(sizeof(float));
}

/// Empty: the kernel takes the convolution whose picture is input `i`.
inline std::string refuse_sums(const KernelQuery& query, std::size_t i) {
  if (most_shared_bytes() < 2 * std::int64_t(sizeof(Stage<__half>))) {
    return "a block has too little shared memory";
  }
  return refuse(query, i);
}

template <typename T>
void launch_term_sums(const KernelArgs& args, const TermSumsCall<T>& call, const FirstShape& s) {
  auto* kernel = call.mask == nullptr ? term_sums_kernel<T, false> : term_sums_kernel<T, true>;
  LaunchShape shape = weight_blocks(s);
  shape.shared_bytes = 2 * sizeof(Stage<T>);
  TR_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               int(shape.shared_bytes)));
  launch(args, shape, kernel, call, s);
}

constexpr int kBlocksDown = 8;

/// A block for each channel: a thread across for each place, kBlocksDown down.
inline LaunchShape finish_shape(const FirstShape& s) {
  LaunchShape shape;
  shape.grid.x = unsigned(s.out_channels);
  shape.block = dim3(kRow, kBlocksDown);
  return shape;
}

/// The blocks' sums of channel blockIdx.x and place threadIdx.x, added in double. By all threads;
/// those with threadIdx.y = 0 get it.
__device__ inline double sum_of_blocks(const float* partial, std::int64_t blocks) {
  __shared__ double shared[kBlocksDown][kRow];
  const std::int64_t tiles = gridDim.x / kOut, tile = blockIdx.x / kOut,
                     channel = blockIdx.x % kOut;
  double sum = 0;
  for (std::int64_t b = threadIdx.y; b < blocks; b += kBlocksDown) {
    sum += partial[((b * tiles + tile) * kOut + channel) * kRow + threadIdx.x];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  for (int r = 1; r < kBlocksDown; ++r) sum += shared[r][threadIdx.x];
  return sum;
}

}  // namespace tr::cuda::first_conv
