// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums of terms by number, in the order of their places: what radix_order.cuh has sorted is cut
// into runs of at most kRun places of one number, counted from the number's first. The sum of a
// number with one run is written as it is; others leave a partial sum a run, and a second launch
// adds those in a fixed order. So no thread walks through all places of a frequent number.
//
// `Terms`:
//   kLanes, kWidth           threads of a run, and neighbouring columns of a thread
//   columns, end             columns of a term; numbers from `end` on have no sum
//   number                   a functor, as radix_order.cuh wants it
//   term(place, column)      Vector<float, kWidth>
//   write(number, column, sum)

#include "backend/cuda/launch.h"
#include "backend/cuda/map.cuh"
#include "backend/cuda/radix_order.cuh"

namespace tr::cuda::runs {

using order::kWarp;

constexpr int kRun = 128;          // places
constexpr int kAddThreads = kRun;  // a window of that many places is a block's
constexpr int kJoinThreads = 512;

template <typename Terms>
struct Sorted {
  Terms terms;
  const std::int32_t* places;
  std::int64_t count;

  __device__ std::int64_t number(std::int64_t i) const { return terms.number(places[i]); }
};

template <typename Terms>
using Sum = Vector<float, Terms::kWidth>;

template <int N>
__device__ inline void add_to(Vector<float, N>& sum, const Vector<float, N>& term) {
#pragma unroll
  for (int k = 0; k < N; ++k) sum.v[k] += term.v[k];
}

/// The first i in [low, high] that holds, where all behind one that does hold, and `high` does.
/// Called by a whole warp.
template <typename Holds>
__device__ std::int64_t first_where(std::int64_t low, std::int64_t high, Holds holds) {
  const int lane = int(threadIdx.x) % kWarp;
  while (low < high) {
    const std::int64_t step = (high - low + kWarp - 1) / kWarp;
    const std::int64_t probe = low + lane * step;
    const int first = __ffs(int(__ballot_sync(0xffffffffu, probe >= high || holds(probe)))) - 1;
    if (first < 0) {
      low += (kWarp - 1) * step + 1;
      continue;
    }
    high = min(high, low + first * step);
    if (first > 0) low += (first - 1) * step + 1;
  }
  return low;
}

/// Numbers of a window's places, of the one before and of as many behind; -1: there is no place.
struct Window {
  std::int64_t numbers[2 * kRun + 1];

  template <typename Terms>
  __device__ void load(const Sorted<Terms>& sorted, std::int64_t begin) {
    for (int i = int(threadIdx.x); i <= 2 * kRun; i += int(blockDim.x)) {
      const std::int64_t at = begin + i - 1;
      numbers[i] = at >= 0 && at < sorted.count ? sorted.number(at) : -1;
    }
  }
  __device__ std::int64_t at(int i) const { return numbers[i + 1]; }
  __device__ bool is_head(int i) const { return at(i) != at(i - 1); }
  /// Places of the run that begins at i.
  __device__ int length(int i) const {
    int low = i + 1, high = i + kRun;  // where it ends
    while (low < high) {
      const int middle = (low + high) / 2;
      if (at(middle) == at(i)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low - i;
  }
};

enum RunKind : int { kWhole, kFirstPart, kLaterPart };

/// Where the partial sum of a run is that begins in that window: one number at most has its first
/// of several runs there, and one a later one.
__host__ __device__ inline std::int64_t slot(std::int64_t window, RunKind kind) {
  return 2 * window + (kind == kFirstPart ? 1 : 0);
}

template <typename Terms>
__device__ Sum<Terms> sum_of(const Terms& terms, const std::int32_t* places, int length,
                             std::int64_t column) {
  constexpr int kAhead = 4;  // loads under way
  Sum<Terms> sum = {};
  int i = 0;
  for (; i + kAhead <= length; i += kAhead) {
    Sum<Terms> next[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) next[j] = terms.term(places[i + j], column);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) add_to(sum, next[j]);
  }
  for (; i < length; ++i) add_to(sum, terms.term(places[i], column));
  return sum;
}

/// A block has the runs that begin in its window, kLanes threads a run; blocks of one window share
/// the columns.
template <typename Terms>
__global__ __launch_bounds__(kAddThreads) void add_kernel(Sorted<Terms> sorted, float* partial) {
  __shared__ Window window;
  __shared__ std::int64_t shared_first;
  __shared__ int lengths[kRun];  // 0: no run begins there
  __shared__ RunKind kinds[kRun];
  const std::int64_t begin = std::int64_t(blockIdx.x) * kRun;
  window.load(sorted, begin);
  __syncthreads();
  const std::int64_t continued = window.at(0);
  if (threadIdx.x < kWarp) {  // where the number of the window's first place begins
    const std::int64_t found =
        window.is_head(0)
            ? begin
            : first_where(0, begin, [&](std::int64_t i) { return sorted.number(i) == continued; });
    if (threadIdx.x == 0) shared_first = found;
  }
  __syncthreads();
  const int own = int(threadIdx.x);
  const std::int64_t number = window.at(own);
  const bool is_head = window.is_head(own);
  const bool begins = is_head || (number == continued && (begin + own - shared_first) % kRun == 0);
  const bool is_run = begins && number >= 0 && number < sorted.terms.end;
  lengths[own] = is_run ? window.length(own) : 0;
  const bool goes_on = is_run && lengths[own] == kRun && window.at(own + kRun) == number;
  kinds[own] = !is_head ? kLaterPart : goes_on ? kFirstPart : kWhole;
  __syncthreads();

  constexpr int kGroups = kAddThreads / Terms::kLanes;
  const Terms& terms = sorted.terms;
  const std::int64_t stride = std::int64_t(gridDim.y) * Terms::kLanes * Terms::kWidth;
  const std::int64_t first_column =
      (std::int64_t(blockIdx.y) * Terms::kLanes + own % Terms::kLanes) * Terms::kWidth;
  for (int i = own / Terms::kLanes; i < kRun; i += kGroups) {
    if (lengths[i] == 0) continue;
    for (std::int64_t c = first_column; c < terms.columns; c += stride) {
      const Sum<Terms> sum = sum_of(terms, sorted.places + begin + i, lengths[i], c);
      if (kinds[i] == kWhole) {
        terms.write(window.at(i), c, sum);
      } else {
        store(partial + slot(blockIdx.x, kinds[i]) * terms.columns + c, sum);
      }
    }
  }
}

/// A block has the number whose first of several runs begins in its window, if there is one.
template <typename Terms>
__global__ __launch_bounds__(kJoinThreads) void join_kernel(Sorted<Terms> sorted,
                                                            const float* partial) {
  __shared__ Window window;
  __shared__ std::int64_t shared_runs;
  __shared__ int shared_head;
  __shared__ Sum<Terms> parts[kJoinThreads];
  const std::int64_t begin = std::int64_t(blockIdx.x) * kRun;
  if (threadIdx.x == 0) shared_head = -1;
  window.load(sorted, begin);
  __syncthreads();
  const int own = int(threadIdx.x);
  if (own < kRun && window.is_head(own) && window.at(own) >= 0 &&
      window.at(own) < sorted.terms.end && window.at(own + kRun) == window.at(own)) {
    shared_head = own;
  }
  __syncthreads();
  if (shared_head < 0) return;
  const std::int64_t number = window.at(shared_head), head = begin + shared_head;
  if (own < kWarp) {
    const std::int64_t most = ceil_div<std::int64_t>(sorted.count - head, kRun);
    const std::int64_t found = first_where(
        1, most, [&](std::int64_t run) { return sorted.number(head + run * kRun) != number; });
    if (own == 0) shared_runs = found;
  }
  __syncthreads();

  constexpr int kGroups = kJoinThreads / Terms::kLanes;
  const Terms& terms = sorted.terms;
  const int lane = own % Terms::kLanes, group = own / Terms::kLanes;
  const std::int64_t share = ceil_div<std::int64_t>(shared_runs, kGroups);
  const std::int64_t end = min(shared_runs, (group + 1) * share);
  constexpr std::int64_t kBlockColumns = Terms::kLanes * Terms::kWidth;
  for (std::int64_t column = blockIdx.y * kBlockColumns; column < terms.columns;
       column += gridDim.y * kBlockColumns) {
    const std::int64_t c = column + lane * Terms::kWidth;
    Sum<Terms> sum = {};
    for (std::int64_t run = group * share; c < terms.columns && run < end; ++run) {
      const RunKind kind = run == 0 ? kFirstPart : kLaterPart;
      add_to(sum, load<Terms::kWidth>(partial + slot(blockIdx.x + run, kind) * terms.columns + c));
    }
    parts[own] = sum;
    __syncthreads();
    if (group == 0 && c < terms.columns) {
      for (int g = 1; g < kGroups; ++g) add_to(sum, parts[g * Terms::kLanes + lane]);
      terms.write(number, c, sum);
    }
    __syncthreads();
  }
}

/// The sums of `count` terms, at most INT32_MAX, by numbers up to `end`.
class Sums {
 public:
  Sums(std::int64_t count, std::int64_t columns, std::int64_t end)
      : count_(count), num_windows_(ceil_div<std::int64_t>(count, kRun)), sort_(room_, count, end) {
    partial_ = room_.reserve(has_parts() ? 2 * num_windows_ * columns * 4 : 0);
  }
  std::int64_t workspace_bytes() const { return room_.bytes(); }

  /// Writes every number that has a term.
  template <typename Terms>
  void run(const KernelArgs& args, const Terms& terms) const {
    const std::int32_t* places = sort_.run(args, terms.number);
    auto* partial = reinterpret_cast<float*>(args.workspace() + partial_);
    const Sorted<Terms> sorted{terms, places, count_};
    LaunchShape shape;
    shape.grid.x = unsigned(num_windows_);
    shape.grid.y = unsigned(std::min<std::int64_t>(
        ceil_div<std::int64_t>(terms.columns, Terms::kLanes * Terms::kWidth), 65535));
    shape.block.x = kAddThreads;
    launch(args, shape, add_kernel<Terms>, sorted, partial);
    if (!has_parts()) return;
    shape.block.x = kJoinThreads;
    launch(args, shape, join_kernel<Terms>, sorted, partial);
  }

 private:
  bool has_parts() const { return count_ > kRun; }

  std::int64_t count_, num_windows_;
  WorkspaceLayout room_;
  order::Sort sort_;
  std::int64_t partial_ = 0;
};

}  // namespace tr::cuda::runs
