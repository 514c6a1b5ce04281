// SPDX-License-Identifier: Apache-2.0
#pragma once

// Rows of class scores, each in the hands of a group of threads: one thread that keeps a short row
// in registers, a warp, or a block.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cuda/grid_sum.cuh"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda {

constexpr int kFewClasses = 16;      // a thread's registers hold them
constexpr int kWarpClasses = 2048;   // more are a block's work
constexpr int kRowBlock = 256;       // threads of a block, if there is more than one
constexpr int kLargestBlock = 1024;  // one block of many threads saves the meeting of several
constexpr std::int64_t kMaxRowBlocks = 1024;

/// Threads of the group that has one row.
inline int group_of(std::int64_t classes) {
  if (classes <= kFewClasses) return 1;
  return classes <= kWarpClasses ? kWarp : kRowBlock;
}

/// The launch over all rows: the kernels stride over those beyond the grid.
inline LaunchShape row_shape(std::int64_t rows, std::int64_t classes) {
  const int group = group_of(classes);
  if (group == 1 && rows <= kLargestBlock) {
    const std::int64_t block =
        ceil_div<std::int64_t>(std::max<std::int64_t>(rows, 1), kWarp) * kWarp;
    return shape_for(rows, int(block), 1);
  }
  return shape_for(rows * group, kRowBlock, kMaxRowBlocks);
}

/// Calls f(std::integral_constant<int, group>).
template <typename F>
void dispatch_group(std::int64_t classes, F&& f) {
  switch (group_of(classes)) {
    case 1: return f(std::integral_constant<int, 1>{});
    case kWarp: return f(std::integral_constant<int, kWarp>{});
    default: return f(std::integral_constant<int, kRowBlock>{});
  }
}

/// Rows that come to this thread: for (row = first(); row < rows; row += stride()).
template <int kGroup>
struct RowLoop {
  __device__ static std::int64_t first() {
    return (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / kGroup;
  }
  __device__ static std::int64_t stride() { return std::int64_t(gridDim.x) * blockDim.x / kGroup; }
  __device__ static int lane() { return int(threadIdx.x) % kGroup; }
};

/// Combines a value over the threads of a group; all of them get the result.
template <int kGroup, typename T, typename F>
__device__ inline T combined(T value, F combine) {
  static_assert(kGroup == kWarp || kGroup == kRowBlock);
  for (int width = kWarp / 2; width > 0; width /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, width));
  }
  if constexpr (kGroup == kRowBlock) {
    __shared__ T of_warp[kRowBlock / kWarp];
    __syncthreads();  // the values of the last time are read
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warp[0];
    for (int warp = 1; warp < kRowBlock / kWarp; ++warp) value = combine(value, of_warp[warp]);
  }
  return value;
}

/// A row that a warp or a block reads from memory as often as it needs it.
template <int kGroup, typename T>
class Row {
 public:
  __device__ Row(const T* x, std::int64_t classes) : x_(x), classes_(classes) {}

  /// Calls f(class, score) for every class, in one thread of the group each.
  template <typename F>
  __device__ void for_each(F f) const {
#pragma unroll 4
    for (std::int64_t i = RowLoop<kGroup>::lane(); i < classes_; i += kGroup) f(i, to_float(x_[i]));
  }
  /// Sum of f(class, score).
  template <typename F>
  __device__ auto sum(F f) const {
    decltype(f(std::int64_t(0), 0.0f)) sum = 0;
    for_each([&](std::int64_t i, float x) { sum += f(i, x); });
    return combined<kGroup>(sum, [](auto a, auto b) { return a + b; });
  }
  /// A NaN counts as absent: what is computed from its row becomes NaN by its own.
  __device__ float largest() const {
    float largest = -INFINITY;
    for_each([&](std::int64_t, float x) { largest = fmaxf(largest, x); });
    return combined<kGroup>(largest, [](float a, float b) { return fmaxf(a, b); });
  }

 private:
  const T* x_;
  std::int64_t classes_;
};

/// A row of at most kFewClasses in one thread's registers. Sums are in the order of the CPU's.
template <typename T>
class Row<1, T> {
 public:
  __device__ Row(const T* x, std::int64_t classes) : classes_(int(classes)) {
#pragma unroll
    for (int i = 0; i < kFewClasses; ++i) x_[i] = i < classes_ ? to_float(x[i]) : 0.0f;
  }

  template <typename F>
  __device__ void for_each(F f) const {
#pragma unroll
    for (int i = 0; i < kFewClasses; ++i) {
      if (i < classes_) f(std::int64_t(i), x_[i]);
    }
  }
  template <typename F>
  __device__ auto sum(F f) const {
    decltype(f(std::int64_t(0), 0.0f)) terms[kFewClasses];
#pragma unroll
    for (int i = 0; i < kFewClasses; ++i) {
      terms[i] = 0;
      if (i < classes_) terms[i] = f(std::int64_t(i), x_[i]);
    }
#pragma unroll
    for (int width = kFewClasses / 2; width > 0; width /= 2) {
#pragma unroll
      for (int i = 0; i < width; ++i) terms[i] += terms[i + width];
    }
    return terms[0];
  }
  __device__ float largest() const {
    float largest = -INFINITY;
    for_each([&](std::int64_t, float x) { largest = fmaxf(largest, x); });
    return largest;
  }

 private:
  float x_[kFewClasses];
  int classes_;
};

}  // namespace tr::cuda
