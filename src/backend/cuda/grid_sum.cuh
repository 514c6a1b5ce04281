// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums over a whole grid in one launch and in an order that depends on its shape alone: every block
// leaves a partial sum, the block that ends last adds them up.

#include <memory>
#include <optional>
#include <string>

#include "backend/cuda/launch.h"
#include "backend/cuda/ticket.h"

namespace tr::cuda {

constexpr int kWarp = 32;
constexpr int kMaxWarps = 32;  // of a block

// One copy a source file: its kernels' counters of blocks that have ended, by Ticket.
static __device__ unsigned int ended_blocks[Ticket::kCount];

template <typename T>
__device__ inline T warp_sum(T value) {
  for (int width = kWarp / 2; width > 0; width /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, width);
  }
  return value;  // in lane 0
}

/// Sum over the block's threads, in thread 0. Blocks are whole warps.
template <typename T>
__device__ inline T block_sum(T value) {
  __shared__ T of_warp[kMaxWarps];
  const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  const int num_warps = int(blockDim.x) / kWarp;
  value = warp_sum(value);
  if (num_warps == 1) return value;
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  return warp == 0 ? warp_sum(lane < num_warps ? of_warp[lane] : T(0)) : value;
}

/// Where blocks leave their partial sums; a grid of one block needs neither.
template <typename T>
struct GridSum {
  T* partial = nullptr;
  int ticket = -1;

  /// Calls finish(sum of value over all threads) in one thread. To be called by all of them, once.
  template <typename Finish>
  __device__ void operator()(T value, Finish finish) const {
    value = block_sum(value);
    if (gridDim.x == 1) {
      if (threadIdx.x == 0) finish(value);
      return;
    }
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
      partial[blockIdx.x] = value;
      __threadfence();
      // Wraps to zero with the last block: ready for the next launch.
      is_last = atomicInc(&ended_blocks[ticket], gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    T sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += __ldcg(partial + i);
    sum = block_sum(sum);
    if (threadIdx.x == 0) finish(sum);
  }
};

/// The launch of a kernel that sums over its grid: plan() gives its shape from the node's types.
struct SummingOp {
  std::string op;
  LaunchShape (*plan)(const KernelQuery&);
  void (*launch)(const KernelArgs&, const LaunchShape&, int ticket);
  std::function<std::string(const KernelQuery&)> refuse = {};
};

class SummingKernel final : public PreparedKernel {
 public:
  SummingKernel(const SummingOp& op, const KernelQuery& query)
      : launch_(op.launch), shape_(op.plan(query)) {
    if (shape_.grid.x > 1) ticket_.emplace();
  }
  void run(const KernelArgs& args) const override {
    launch_(args, shape_, ticket_ ? ticket_->number() : -1);
  }

 private:
  void (*launch_)(const KernelArgs&, const LaunchShape&, int);
  LaunchShape shape_;
  std::optional<Ticket> ticket_;
};

/// Workspace: 8 bytes a block.
inline KernelDef summing_kernel(const SummingOp& op) {
  KernelDef def = simple_kernel(op.op, nullptr, op.refuse);
  def.workspace_bytes = [op](const KernelQuery& query) {
    const std::int64_t blocks = op.plan(query).grid.x;
    return blocks == 1 ? 0 : blocks * std::int64_t(sizeof(double));
  };
  def.prepare = [op](const KernelQuery& query, int) {
    return std::make_unique<SummingKernel>(op, query);
  };
  return def;
}

template <typename T>
GridSum<T> grid_sum_of(const KernelArgs& args, int ticket) {
  return {reinterpret_cast<T*>(args.workspace()), ticket};
}

}  // namespace tr::cuda
