// SPDX-License-Identifier: Apache-2.0
// finite_check: one pass over the gradients for both found_inf and the sum of squares. Each block
// leaves a partial result in the workspace; the block that ends last adds them in the order of
// their numbers.
#include <memory>
#include <optional>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"
#include "backend/cuda/ticket.h"

namespace tr::cuda::finite {
namespace {

using Float4 = Vector<float, 4>;
constexpr int kThreads = 512;
constexpr int kWarp = 32;
constexpr int kInFlight = 4;
constexpr std::int64_t kPerBlock = kThreads * 4 * kInFlight;  // 8192 elements a turn
constexpr std::int64_t kMostBlocks = 512;                     // about what a large device holds
constexpr std::uint32_t kInfinity = 0x7f800000u;

/// What a block leaves: the sum of squares, and the largest of the absolute values as bits, which
/// is that of infinity or more if one element is not finite.
struct Partial {
  double sumsq;
  std::uint32_t largest;
  std::uint32_t unused;
};

/// Over the block, in an order that depends on nothing but kThreads; the result is thread 0's.
__device__ Partial reduce_block(Partial mine) {
  __shared__ Partial warps[kThreads / kWarp];
  const auto reduce_warp = [&](int width) {
    for (int step = width / 2; step > 0; step /= 2) {
      mine.sumsq += __shfl_down_sync(0xffffffffu, mine.sumsq, unsigned(step));
      const std::uint32_t other = __shfl_down_sync(0xffffffffu, mine.largest, unsigned(step));
      mine.largest = other > mine.largest ? other : mine.largest;
    }
  };
  reduce_warp(kWarp);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  if (threadIdx.x < kWarp) {
    mine = threadIdx.x < kThreads / kWarp ? warps[threadIdx.x] : Partial{0, 0, 0};
    reduce_warp(kThreads / kWarp);
  }
  return mine;
}

/// Running sums of a thread, one for each place in a vector.
struct Sums {
  float lanes[4] = {0, 0, 0, 0};
  std::uint32_t largest = 0;

  __device__ void add(float value, int lane) {
    lanes[lane] += value * value;
    const std::uint32_t bits = __float_as_uint(value) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
};

__device__ Partial check_range(const float* g, std::int64_t count, std::int64_t num_vectors) {
  const auto* wide = reinterpret_cast<const Float4*>(g);
  Sums sums;
  const std::int64_t turn = std::int64_t(gridDim.x) * kThreads * kInFlight;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads * kInFlight + threadIdx.x;
       i < num_vectors; i += turn) {
    Float4 held[kInFlight];
#pragma unroll
    for (int v = 0; v < kInFlight; ++v) {
      held[v] = i + v * kThreads < num_vectors ? wide[i + v * kThreads] : Float4{};
    }
#pragma unroll
    for (int v = 0; v < kInFlight; ++v) {
#pragma unroll
      for (int j = 0; j < 4; ++j) sums.add(held[v].v[j], j);
    }
  }
  for (std::int64_t i = num_vectors * 4 + std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
       i < count; i += std::int64_t(gridDim.x) * kThreads) {
    sums.add(g[i], 0);
  }
  const double sumsq = (double(sums.lanes[0]) + double(sums.lanes[1])) +
                       (double(sums.lanes[2]) + double(sums.lanes[3]));
  return {sumsq, sums.largest, 0};
}

/// The partial results of all blocks, as one; the result is thread 0's.
__device__ Partial combine(const Partial* partials) {
  Partial mine{0, 0, 0};
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) {
    mine.sumsq += __ldcg(&partials[i].sumsq);
    const std::uint32_t largest = __ldcg(&partials[i].largest);
    mine.largest = largest > mine.largest ? largest : mine.largest;
  }
  return reduce_block(mine);
}

// Blocks that have ended, by Ticket: zero between launches.
__device__ unsigned ended_blocks[Ticket::kCount];

/// A single block needs no partials and no ticket.
__global__ __launch_bounds__(kThreads) void check_kernel(const float* g, std::int64_t count,
                                                         std::int64_t num_vectors,
                                                         Partial* partials, int ticket,
                                                         std::int32_t* found_inf,
                                                         float* grad_sumsq) {
  __shared__ bool is_last;
  Partial all = reduce_block(check_range(g, count, num_vectors));
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) {
      partials[blockIdx.x] = all;
      __threadfence();
      // Wraps to zero with the last block.
      is_last = atomicInc(&ended_blocks[ticket], gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    all = combine(partials);
  }
  if (threadIdx.x != 0) return;
  *found_inf = all.largest >= kInfinity ? 1 : 0;
  *grad_sumsq = float(all.sumsq);
}

/// Depends on the length alone, and with it the order of the sum.
std::int64_t num_blocks(std::int64_t count) {
  return std::clamp<std::int64_t>(ceil_div(count, kPerBlock), 1, kMostBlocks);
}

class FiniteCheck final : public PreparedKernel {
 public:
  explicit FiniteCheck(std::int64_t count) : count_(count) {
    if (num_blocks(count) > 1) ticket_.emplace();
  }

  void run(const KernelArgs& args) const override {
    const auto* g = args.in<float>(0);
    const std::int64_t vectors = aligned_to(sizeof(Float4), g) ? count_ / 4 : 0;
    LaunchShape shape;
    shape.grid.x = unsigned(num_blocks(count_));
    shape.block.x = kThreads;
    launch(args, shape, check_kernel, g, count_, vectors,
           reinterpret_cast<Partial*>(args.workspace()), ticket_ ? ticket_->number() : -1,
           args.out<std::int32_t>(0), args.out<float>(1));
  }

 private:
  std::int64_t count_;
  std::optional<Ticket> ticket_;
};

KernelDef finite_check_kernel() {
  KernelDef def = simple_kernel("finite_check", nullptr);
  def.workspace_bytes = [](const KernelQuery& query) {
    const std::int64_t blocks = num_blocks(query.in[0].shape.num_elements());
    return blocks > 1 ? blocks * std::int64_t(sizeof(Partial)) : 0;
  };
  def.prepare = [](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<FiniteCheck>(query.in[0].shape.num_elements());
  };
  return def;
}

const KernelRegistration kFiniteCheck{finite_check_kernel()};

}  // namespace
}  // namespace tr::cuda::finite
