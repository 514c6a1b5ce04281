// SPDX-License-Identifier: Apache-2.0
#pragma once

// One pass over whole ranges by the segment table: what sgd and adam share. Blocks walk over tiles
// of the range; a tile's loads are issued before anything is known about the step, so that the
// look-ups (step row, loss scale, segment) cost no time of their own.

#include <limits>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"
#include "graph/memory_plan.h"
#include "graph/step_tables.h"

namespace tr::cuda::optimizer {

/// Inputs that every optimizer op begins with; moments and then weight_cast follow.
enum OptimizerInput : int {
  kWeights,
  kGradients,
  kSegments,
  kStepFloats,
  kCounters,
  kLossScale,
  kFoundInf,
  kGradSumsq,
  kFirstMoment
};

/// The ranges; `T` is the type of the 16-bit copy. Missing ones are null.
template <typename T>
struct Ranges {
  float* weights;
  const float* gradients;
  float* moment1;
  float* moment2;
  T* weight_cast;
  std::int64_t count;
};

/// Where a step's own values lie on the device, and the attributes that act on every gradient.
struct StepInputs {
  const Segment* segments;
  int num_segments;
  const float* step_floats;
  std::int64_t capacity;  // rows of step_floats
  std::int64_t columns;
  const std::int64_t* counters;
  const float* loss_scale;
  const std::int32_t* found_inf;
  const float* grad_sumsq;
  float clip_norm;   // 0: off
  float clip_value;  // 0: off
};

/// What a step does to every gradient before the optimizer's own formula.
struct GradientScale {
  float factor;  // 1 / loss_scale, times the clip by norm
  float limit;   // clip by value; infinity: off

  __device__ float operator()(float gradient) const {
    const float g = gradient * factor;
    const float low = g < -limit ? -limit : g;
    return low > limit ? limit : low;
  }
};

/// `grad_sumsq`: sum of squares of the gradient as it is, read only where clip_norm is on.
__device__ inline GradientScale gradient_scale(const StepInputs& step, const float* grad_sumsq) {
  const float loss_scale = *step.loss_scale;
  GradientScale scale{1.0f / loss_scale, std::numeric_limits<float>::infinity()};
  if (step.clip_norm > 0) {
    const float norm = sqrtf(*grad_sumsq) / loss_scale;
    const float clip = step.clip_norm / (norm + 1e-6f);
    scale.factor *= clip < 1.0f ? clip : 1.0f;
  }
  if (step.clip_value > 0) scale.limit = step.clip_value;
  return scale;
}

/// Rates of one segment in the running step.
struct SegmentRates {
  float lr;
  float decay;
};

/// The elements [begin, end) that one segment owns, and the optimizer's factors for them.
template <typename Factors>
struct OwnedRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool frozen = true;
  Factors factors{};
};

/// The first segment that ends behind element `i`, or the gap before it as a frozen run.
template <typename Update>
__device__ OwnedRun<typename Update::Factors> run_at(const StepInputs& step, const float* row,
                                                     const typename Update::Shared& shared,
                                                     const Update& update, std::int64_t i) {
  int low = 0, high = step.num_segments;
  while (low < high) {
    const int middle = (low + high) / 2;
    const Segment& s = step.segments[middle];
    if (s.begin + s.count <= i) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  OwnedRun<typename Update::Factors> run;
  if (low == step.num_segments) {
    run.begin = i;
    run.end = std::numeric_limits<std::int64_t>::max();
    return run;
  }
  const Segment& s = step.segments[low];
  if (i < s.begin) {
    run.begin = i;
    run.end = s.begin;
    return run;
  }
  const float* group = row + kFloatHeader + kGroupColumns * s.group;
  run.begin = s.begin;
  run.end = s.begin + s.count;
  run.frozen = s.frozen != 0;
  run.factors = update.factors(
      shared, SegmentRates{group[kGroupLr] * s.lr_scale, group[kGroupDecay] * s.decay_scale});
  return run;
}

constexpr int kThreads = 256;
constexpr int kWidth = 4;  // elements of a 16-byte vector

/// What a thread holds of one tile.
template <int kVectors, int kMoments>
struct Tile {
  using Float4 = Vector<float, kWidth>;
  Float4 weights[kVectors];
  Float4 gradients[kVectors];
  Float4 moments[kMoments > 0 ? kMoments : 1][kVectors];
};

template <int kVectors>
__device__ inline std::int64_t element_of(std::int64_t tile, int vector) {
  return ((tile * kVectors + vector) * kThreads + threadIdx.x) * kWidth;
}

template <typename Update, int kVectors, typename T>
__device__ inline void load_tile(const Ranges<T>& ranges, std::int64_t tile,
                                 Tile<kVectors, Update::kMoments>& held) {
  using Float4 = Vector<float, kWidth>;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t i = element_of<kVectors>(tile, v);
    if (i + kWidth > ranges.count) continue;
    held.weights[v] = *reinterpret_cast<const Float4*>(ranges.weights + i);
    held.gradients[v] = *reinterpret_cast<const Float4*>(ranges.gradients + i);
    if constexpr (Update::kMoments > 0) {
      held.moments[0][v] = *reinterpret_cast<const Float4*>(ranges.moment1 + i);
    }
    if constexpr (Update::kMoments > 1) {
      held.moments[1][v] = *reinterpret_cast<const Float4*>(ranges.moment2 + i);
    }
  }
}

/// Updates one element in registers; m1 and m2 are ignored by optimizers without them.
template <typename Update, typename T>
__device__ void update_element(const Ranges<T>& ranges, std::int64_t i, const Update& update,
                               const GradientScale& scale,
                               const typename Update::Factors& factors) {
  float w = ranges.weights[i];
  float m1 = Update::kMoments > 0 ? ranges.moment1[i] : 0.0f;
  float m2 = Update::kMoments > 1 ? ranges.moment2[i] : 0.0f;
  update(factors, scale(ranges.gradients[i]), w, m1, m2);
  ranges.weights[i] = w;
  if (Update::kMoments > 0) ranges.moment1[i] = m1;
  if (Update::kMoments > 1) ranges.moment2[i] = m2;
  if (ranges.weight_cast != nullptr) ranges.weight_cast[i] = from_float<T>(w);
}

template <typename Update, int kVectors, typename T>
__device__ inline void update_vector(const Ranges<T>& ranges, std::int64_t i, int v,
                                     Tile<kVectors, Update::kMoments>& held, const Update& update,
                                     const GradientScale& scale,
                                     const typename Update::Factors& factors) {
  using Float4 = Vector<float, kWidth>;
  constexpr int kSecond = Update::kMoments > 1 ? 1 : 0;
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    update(factors, scale(held.gradients[v].v[j]), held.weights[v].v[j], held.moments[0][v].v[j],
           held.moments[kSecond][v].v[j]);
  }
  *reinterpret_cast<Float4*>(ranges.weights + i) = held.weights[v];
  if constexpr (Update::kMoments > 0) {
    *reinterpret_cast<Float4*>(ranges.moment1 + i) = held.moments[0][v];
  }
  if constexpr (Update::kMoments > 1) {
    *reinterpret_cast<Float4*>(ranges.moment2 + i) = held.moments[1][v];
  }
  if (ranges.weight_cast != nullptr) {
    Vector<T, kWidth> narrow;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) narrow.v[j] = from_float<T>(held.weights[v].v[j]);
    *reinterpret_cast<Vector<T, kWidth>*>(ranges.weight_cast + i) = narrow;
  }
}

/// The whole pass. Update gives Shared (computed once a block by prepare()), Factors (once a
/// segment), and operator() for one element; kMoments says which of m1, m2 it uses.
template <typename Update, int kVectors, typename T>
__global__ __launch_bounds__(kThreads) void update_kernel(Ranges<T> ranges, StepInputs step,
                                                          Update update, std::int64_t num_tiles) {
  __shared__ GradientScale shared_scale;
  __shared__ typename Update::Shared shared;
  Tile<kVectors, Update::kMoments> held;
  load_tile<Update, kVectors>(ranges, blockIdx.x, held);
  const bool skip = *step.found_inf != 0;
  const float* row = step.step_floats + step.counters[kCounterRow] % step.capacity * step.columns;
  if (threadIdx.x == 0) shared_scale = gradient_scale(step, step.grad_sumsq);
  update.prepare(step, shared);
  __syncthreads();
  if (skip) return;
  const GradientScale scale = shared_scale;

  OwnedRun<typename Update::Factors> run;
  for (std::int64_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    if (tile != blockIdx.x) load_tile<Update, kVectors>(ranges, tile, held);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t first = element_of<kVectors>(tile, v);
      if (first >= ranges.count) break;
      if (first >= run.end) run = run_at(step, row, shared, update, first);
      const std::int64_t last = first + kWidth < ranges.count ? first + kWidth : ranges.count;
      if (last == first + kWidth && last <= run.end) {
        if (!run.frozen) {
          update_vector<Update, kVectors>(ranges, first, v, held, update, scale, run.factors);
        }
        continue;
      }
      for (std::int64_t i = first; i < last; ++i) {  // a vector over a border
        if (i >= run.end) run = run_at(step, row, shared, update, i);
        if (!run.frozen) update_element(ranges, i, update, scale, run.factors);
      }
    }
  }
}

/// Blocks of `kernel` that the current device holds at once; each walks over its tiles, so that the
/// step's look-ups are made once for many of them.
template <typename... Params>
std::int64_t resident_blocks(void (*kernel)(Params...)) {
  int device = 0, multiprocessors = 0, blocks = 0;
  TR_CUDA(cudaGetDevice(&device));
  TR_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  TR_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kThreads, 0));
  return std::int64_t(multiprocessors) * std::max(blocks, 1);
}

inline StepInputs step_inputs(const KernelArgs& args) {
  const Shape& table = args.in_type(kStepFloats).shape;
  return {args.in<Segment>(kSegments),
          int(args.in_type(kSegments).shape[0] / std::int64_t(sizeof(Segment))),
          args.in<float>(kStepFloats),
          table[0],
          table[1],
          args.in<std::int64_t>(kCounters),
          args.in<float>(kLossScale),
          args.in<std::int32_t>(kFoundInf),
          args.in<float>(kGradSumsq),
          args.attrs().f32("clip_norm"),
          args.attrs().f32("clip_value")};
}

template <typename Update, typename T>
void launch_typed(const KernelArgs& args, int num_moment_inputs, T* weight_cast,
                  const Update& update) {
  // At least 8 vectors of 16 bytes in flight a thread.
  constexpr int kVectors = Update::kMoments > 1 ? 2 : 4;
  const auto moment = [&](int index) {
    return index < num_moment_inputs && args.has_in(kFirstMoment + index)
               ? args.state<float>(kFirstMoment + index)
               : nullptr;
  };
  const std::int64_t count = args.in_type(kWeights).shape.num_elements();
  const Ranges<T> ranges{args.state<float>(kWeights),
                         args.in<float>(kGradients),
                         moment(0),
                         moment(1),
                         weight_cast,
                         count};
  const std::int64_t tiles = ceil_div<std::int64_t>(count, kVectors * kThreads * kWidth);
  if (tiles == 0) return;
  const auto kernel = update_kernel<Update, kVectors, T>;
  LaunchShape shape;
  shape.grid.x = unsigned(std::min(tiles, resident_blocks(kernel)));
  shape.block.x = kThreads;
  launch(args, shape, kernel, ranges, step_inputs(args), update, tiles);
}

/// One launch for all elements of all segments that are not frozen; nothing at all if the step
/// found a gradient that is not finite. `num_moment_inputs` moments stand before weight_cast.
template <typename Update>
void update_all(const KernelArgs& args, int num_moment_inputs, const Update& update) {
  const int cast = kFirstMoment + num_moment_inputs;
  if (!args.has_in(cast)) {
    launch_typed<Update, __half>(args, num_moment_inputs, nullptr, update);
  } else if (args.in_type(cast).dtype == DType::FP16) {
    launch_typed(args, num_moment_inputs, args.state<__half>(cast), update);
  } else {
    launch_typed(args, num_moment_inputs, args.state<__nv_bfloat16>(cast), update);
  }
}

}  // namespace tr::cuda::optimizer
