// SPDX-License-Identifier: Apache-2.0
#pragma once

// fc_update: weight gradients of a chain of fc layers, the finite check and the optimizer as one
// kernel, for any way to make a tile (fc_update.cu, fc_update_wgmma.cu). A block makes a tile of
// some dW = dy^T x in shared memory; when all blocks have told whether theirs is finite, each
// updates its tile's weights. The gradients never leave the chip, but for tiles that a block makes
// before its last one: those lie in the gradients' range meanwhile.

#include "backend/cuda/early_start.cuh"
#include "backend/cuda/fc_update_block.cuh"
#include "backend/cuda/grid_meeting.cuh"

namespace tr::cuda::fc_update {

constexpr int kChunk = 8;  // elements of 16 bytes

/// What blocks tell each other.
struct Verdicts {
  double* sumsq;  // by block; not finite if one of its gradients is not
  std::int32_t* found_inf;
  float* grad_sumsq;
};

/// What a warp's lanes hold of the segment table and the step's row: asked for before the product,
/// used after it, so that nobody waits for it.
class StepLookUp {
 public:
  __device__ explicit StepLookUp(const opt::StepInputs& step)
      : step_(step), row_number_(step.counters[kCounterRow]) {
    if (lane() < step.num_segments) mine_ = step.segments[lane()];
  }

  /// Rates of the segment that begins at `at`, by a whole warp; false: it is frozen.
  __device__ bool rates_at(std::int64_t at, opt::SegmentRates& rates) const {
    Segment segment = mine_;
    for (int base = 0;; base += kWarp) {
      if (base > 0 && base + lane() < step_.num_segments) {
        segment = step_.segments[base + lane()];
      }
      const bool here = base + lane() < step_.num_segments && segment.begin == at;
      const unsigned found = __ballot_sync(0xffffffffu, here);
      if (found == 0 && base + kWarp < step_.num_segments) continue;
      if (found == 0) return false;  // no segment begins there: nobody owns it
      const int owner = __ffs(int(found)) - 1;
      const int group = __shfl_sync(0xffffffffu, segment.group, owner);
      const float* row = step_.step_floats + row_number_ % step_.capacity * step_.columns +
                         kFloatHeader + kGroupColumns * group;
      rates.lr = row[kGroupLr] * __shfl_sync(0xffffffffu, segment.lr_scale, owner);
      rates.decay = row[kGroupDecay] * __shfl_sync(0xffffffffu, segment.decay_scale, owner);
      return __shfl_sync(0xffffffffu, segment.frozen, owner) == 0;
    }
  }

 private:
  __device__ static int lane() { return int(threadIdx.x) % kWarp; }

  const opt::StepInputs& step_;
  std::int64_t row_number_;
  Segment mine_{};
};

/// Rates of a tile's weights and biases.
struct TileRates {
  opt::SegmentRates of[2];
  bool owned[2];
};

/// Sum of what the blocks told, in their order, in thread 0.
__device__ inline double total_of(const Verdicts& verdicts) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += UpdateTile::kThreads) {
    sum += __ldcg(verdicts.sumsq + i);
  }
  return block_sum(sum);
}

/// `settled`: no node of the step writes the state that the optimizer reads, so that all of it is
/// asked for before the predecessors have ended. `keep`: gradients are written too. kSingle: there
/// is a block for every tile.
template <typename Update, typename T, typename Gradient, bool kSingle>
__global__ __launch_bounds__(UpdateTile::kThreads, 3) void fc_update_kernel(
    const __grid_constant__ FcLayers<T> layers,
    const __grid_constant__ typename Gradient::template Operands<Update> operands,
    opt::Ranges<T> ranges, float* gradients, opt::StepInputs step, Update update, Verdicts verdicts,
    GridMeeting meeting, bool settled, bool keep) {
  extern __shared__ __align__(16) unsigned char bytes[];
  __shared__ typename Gradient::Barriers barriers;
  __shared__ typename Update::Shared shared;
  __shared__ opt::GradientScale scale;
  __shared__ TileRates rates;
  __shared__ unsigned num_bad;
  const int grid = int(gridDim.x), warp = int(threadIdx.x) / kWarp;
  const int last = kSingle ? int(blockIdx.x)
                           : layers.num_tiles - 1 - (layers.num_tiles - 1 - int(blockIdx.x)) % grid;

  let_successors_start();
  if (!settled) wait_for_predecessors();
  Gradient gradient(operands.products, bytes, barriers);
  typename Gradient::template State<Update> state(operands.state, gradient);
  UpdateBlock<Update, T, Gradient, typename Gradient::template State<Update>> block(
      layers, ranges, gradients, gradient, state);
  const StepLookUp look_up(step);
  if (kSingle && Gradient::kEarlyState) block.prefetch(last);
  if (settled) wait_for_predecessors();

  block.start(int(blockIdx.x));
  // While the operands come, warps 0 and 1 look up the rates, others raise Adam's betas.
  const auto find_rates = [&](int tile) {
    if (warp > 1) return;
    const FcLayer<T>& layer = *TilePlace<T>(layers, tile).layer;
    const std::int64_t at = warp == 0 ? layer.weight_at : layer.bias_at;
    opt::SegmentRates found{};
    const bool owned = look_up.rates_at(at, found);
    if (threadIdx.x % kWarp != 0) return;
    rates.of[warp] = found;
    rates.owned[warp] = owned;
  };
  find_rates(last);
  update.prepare(step, shared);
  double sumsq = 0;
  if constexpr (!kSingle) {
    for (int tile = int(blockIdx.x); tile < last; tile += grid) {
      block.make(tile, sumsq);
      block.spill(tile);
      __syncthreads();  // the next tile's stages lie over this one's gradients
      block.start(tile + grid);
    }
  }
  block.make(last, sumsq);
  if (keep) block.spill(last);
  if (!kSingle || !Gradient::kEarlyState) block.prefetch(last);
  sumsq = block_sum(sumsq);
  const auto factors_now = [&] {
    return TileFactors<Update>{update.factors(shared, rates.of[0]),
                               update.factors(shared, rates.of[1]), !rates.owned[0],
                               !rates.owned[1]};
  };
  TileFactors<Update> factors = factors_now();
  if (threadIdx.x == 0) {
    verdicts.sumsq[blockIdx.x] = sumsq;
    if (step.clip_norm <= 0) scale = opt::gradient_scale(step, nullptr);
    num_bad = meeting.meet(!isfinite(sumsq));
  }
  __syncthreads();
  if (step.clip_norm > 0) {
    const double total = total_of(verdicts);
    if (threadIdx.x == 0) {
      const auto rounded = float(total);
      scale = opt::gradient_scale(step, &rounded);
    }
    __syncthreads();
  }
  if (num_bad == 0) {
    block.update(last, update, scale, factors);
    for (int tile = int(blockIdx.x); !kSingle && tile < last; tile += grid) {
      __syncthreads();  // the former tile's rates are used
      find_rates(tile);
      block.unspill(tile);
      block.prefetch(tile);
      __syncthreads();
      factors = factors_now();
      block.update(tile, update, scale, factors);
    }
  }
  if (num_bad != 0) state.settle();  // no copy may come into the memory of a block that has left
  if (blockIdx.x == 0) {
    const double total = total_of(verdicts);
    if (threadIdx.x == 0) {
      *verdicts.found_inf = num_bad != 0 ? 1 : 0;
      *verdicts.grad_sumsq = float(total);
    }
  }
  if (threadIdx.x == 0) meeting.leave();
}

}  // namespace tr::cuda::fc_update
