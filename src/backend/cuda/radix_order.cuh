// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sorts the places 0 .. count - 1 by the number of each: a radix sort, eight bits a pass from the
// lowest on, in which equal digits stay in order. So equal numbers stay in the order of their
// places, the result depends on the numbers alone, and a pass reads every number twice.
//
// `Number`: std::int64_t operator()(std::int64_t place) const, at least 0.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "backend/cuda/launch.h"
#include "backend/cuda/workspace_layout.h"

namespace tr::cuda::order {

constexpr int kWarp = 32;
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
constexpr int kThreads = kDigits;  // a thread a digit
constexpr int kWarps = kThreads / kWarp;
constexpr int kRounds = 8;  // places of a lane
constexpr int kTile = kThreads * kRounds;

/// The places of one block, each warp's one behind the other.
struct Tile {
  std::int32_t place[kRounds];
  int digit[kRounds];  // kDigits: there is no place
  int rank[kRounds];   // among the warp's places of that digit

  /// `counts` become the numbers of each warp's places by digit; the block has to wait for them.
  template <typename Number>
  __device__ Tile(const Number& number, const std::int32_t* places, std::int64_t count, int shift,
                  int (*counts)[kDigits]) {
    const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
    for (int w = 0; w < kWarps; ++w) counts[w][threadIdx.x] = 0;
    __syncthreads();
    const std::int64_t first =
        std::int64_t(blockIdx.x) * kTile + std::int64_t(warp) * kRounds * kWarp + lane;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const std::int64_t at = first + r * kWarp;
      const bool is_there = at < count;
      place[r] = !is_there ? 0 : places == nullptr ? std::int32_t(at) : places[at];
      digit[r] = is_there ? int(number(place[r]) >> shift) & (kDigits - 1) : kDigits;
    }
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const bool is_there = digit[r] < kDigits;
      const unsigned equal = __match_any_sync(0xffffffffu, digit[r]);
      const int before = __popc(equal & ((1u << lane) - 1));
      const int known = is_there ? counts[warp][digit[r]] : 0;
      rank[r] = known + before;
      __syncwarp();
      if (is_there && before == 0) counts[warp][digit[r]] = known + __popc(equal);
      __syncwarp();
    }
  }
};

struct Scanned {
  int before, all;
};

/// The sum of `value` over the threads before, and over all. `sums`: kWarps of shared memory.
__device__ inline Scanned scan_block(int value, int* sums) {
  const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  int up_to = value;
  for (int width = 1; width < kWarp; width *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, up_to, width);
    if (lane >= width) up_to += other;
  }
  if (lane == kWarp - 1) sums[warp] = up_to;
  __syncthreads();
  Scanned result{up_to - value, 0};
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) result.before += sums[w];
    result.all += sums[w];
  }
  __syncthreads();
  return result;
}

/// counts[digit][tile]
template <typename Number>
__global__ __launch_bounds__(kThreads) void count_kernel(Number number, const std::int32_t* places,
                                                         std::int64_t count, int shift,
                                                         std::int32_t* counts) {
  __shared__ int of_warp[kWarps][kDigits];
  const Tile tile(number, places, count, shift, of_warp);
  __syncthreads();
  int sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += of_warp[w][threadIdx.x];
  counts[std::int64_t(threadIdx.x) * gridDim.x + blockIdx.x] = sum;
}

/// A block a digit: counts become how many are in the tiles before, `totals` how many in all.
static __global__ __launch_bounds__(kThreads) void offsets_kernel(std::int32_t* counts,
                                                                  std::int64_t num_tiles,
                                                                  std::int32_t* totals) {
  __shared__ int sums[kWarps];
  std::int32_t* row = counts + blockIdx.x * num_tiles;
  int before = 0;
  for (std::int64_t begin = 0; begin < num_tiles; begin += kThreads) {
    const std::int64_t at = begin + threadIdx.x;
    const Scanned scanned = scan_block(at < num_tiles ? row[at] : 0, sums);
    if (at < num_tiles) row[at] = before + scanned.before;
    before += scanned.all;
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

/// Every place to where its digit puts it. One tile alone counts for itself.
template <typename Number>
__global__ __launch_bounds__(kThreads) void place_kernel(Number number, const std::int32_t* places,
                                                         std::int64_t count, int shift,
                                                         const std::int32_t* counts,
                                                         const std::int32_t* totals,
                                                         std::int32_t* sorted) {
  __shared__ int of_warp[kWarps][kDigits], sums[kWarps];
  const Tile tile(number, places, count, shift, of_warp);
  __syncthreads();
  const int own = int(threadIdx.x);
  const bool is_alone = gridDim.x == 1;
  int all = 0;
  if (is_alone) {
    for (int w = 0; w < kWarps; ++w) all += of_warp[w][own];
  } else {
    all = totals[own];
  }
  int next = scan_block(all, sums).before;
  if (!is_alone) next += counts[std::int64_t(own) * gridDim.x + blockIdx.x];
  for (int w = 0; w < kWarps; ++w) {
    const int held = of_warp[w][own];
    of_warp[w][own] = next;
    next += held;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    if (tile.digit[r] == kDigits) continue;
    sorted[of_warp[threadIdx.x / kWarp][tile.digit[r]] + tile.rank[r]] = tile.place[r];
  }
}

/// A sort of `count` places, at most INT32_MAX, by numbers up to `most`.
class Sort {
 public:
  Sort(WorkspaceLayout& workspace, std::int64_t count, std::int64_t most)
      : count_(count),
        num_tiles_(ceil_div<std::int64_t>(count, kTile)),
        num_passes_(std::max(1, ceil_div(int(std::bit_width(std::uint64_t(most))), kDigitBits))) {
    for (std::int64_t& places : places_) places = workspace.reserve(count * 4);
    if (num_tiles_ <= 1) return;
    counts_ = workspace.reserve(kDigits * num_tiles_ * 4);
    totals_ = workspace.reserve(kDigits * 4);
  }

  /// Where the sorted places are.
  template <typename Number>
  const std::int32_t* run(const KernelArgs& args, const Number& number) const {
    const auto part = [&](std::int64_t offset) {
      return reinterpret_cast<std::int32_t*>(args.workspace() + offset);
    };
    LaunchShape tiles, digits;
    tiles.grid.x = unsigned(num_tiles_);
    tiles.block.x = digits.block.x = kThreads;
    digits.grid.x = kDigits;
    const std::int32_t* from = nullptr;
    for (int pass = 0; pass < num_passes_; ++pass) {
      const int shift = pass * kDigitBits;
      if (num_tiles_ > 1) {
        launch(args, tiles, count_kernel<Number>, number, from, count_, shift, part(counts_));
        launch(args, digits, offsets_kernel, part(counts_), num_tiles_, part(totals_));
      }
      std::int32_t* to = part(places_[pass % 2]);
      launch(args, tiles, place_kernel<Number>, number, from, count_, shift, part(counts_),
             part(totals_), to);
      from = to;
    }
    return from;
  }

 private:
  std::int64_t count_, num_tiles_;
  int num_passes_;
  std::int64_t places_[2], counts_ = 0, totals_ = 0;  // offsets in the workspace
};

}  // namespace tr::cuda::order
