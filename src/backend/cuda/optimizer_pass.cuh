// SPDX-License-Identifier: Apache-2.0
#pragma once

// One pass over whole ranges by the segment table: what all optimizers share. A block takes one
// tile of the range (a grid that stays and walks over tiles reached 82 to 93 % of a copy's
// bandwidth where this reaches 95 to 98 %); its loads are issued before anything is known about the
// step, so that the look-ups (step row, loss scale, segment) cost no time of their own.

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/optimizer_step.cuh"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda::optimizer {

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

/// False: the update uses no gradients.
template <typename Update>
constexpr bool reads_gradients() {
  if constexpr (requires { Update::kReadsGradients; }) return Update::kReadsGradients;
  return true;
}
/// False: the update leaves its moments as they are.
template <typename Update>
constexpr bool writes_moments() {
  if constexpr (requires { Update::kWritesMoments; }) return Update::kWritesMoments;
  return true;
}

/// One element, with as many moments as the update knows.
template <typename Update>
__device__ inline void apply(const Update& update, const typename Update::Factors& factors, float g,
                             float& w, float& m1, float& m2, float& m3) {
  if constexpr (requires { update(factors, g, w, m1, m2, m3); }) {
    update(factors, g, w, m1, m2, m3);
  } else {
    update(factors, g, w, m1, m2);
  }
}

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
    if constexpr (reads_gradients<Update>()) {
      held.gradients[v] = *reinterpret_cast<const Float4*>(ranges.gradients + i);
    }
    if constexpr (Update::kMoments > 0) {
      held.moments[0][v] = *reinterpret_cast<const Float4*>(ranges.moment1 + i);
    }
    if constexpr (Update::kMoments > 1) {
      held.moments[1][v] = *reinterpret_cast<const Float4*>(ranges.moment2 + i);
    }
    if constexpr (Update::kMoments > 2) {
      held.moments[2][v] = *reinterpret_cast<const Float4*>(ranges.moment3 + i);
    }
  }
}

/// Updates one element in registers; moments are ignored by optimizers without them.
template <typename Update, typename T>
__device__ void update_element(const Ranges<T>& ranges, std::int64_t i, const Update& update,
                               const GradientScale& scale,
                               const typename Update::Factors& factors) {
  float w = ranges.weights[i];
  float m1 = Update::kMoments > 0 ? ranges.moment1[i] : 0.0f;
  float m2 = Update::kMoments > 1 ? ranges.moment2[i] : 0.0f;
  float m3 = Update::kMoments > 2 ? ranges.moment3[i] : 0.0f;
  apply(update, factors, reads_gradients<Update>() ? scale(ranges.gradients[i]) : 0.0f, w, m1, m2,
        m3);
  ranges.weights[i] = w;
  if constexpr (writes_moments<Update>()) {
    if (Update::kMoments > 0) ranges.moment1[i] = m1;
    if (Update::kMoments > 1) ranges.moment2[i] = m2;
    if (Update::kMoments > 2) ranges.moment3[i] = m3;
  }
  if (ranges.weight_cast != nullptr) ranges.weight_cast[i] = from_float<T>(w);
}

template <typename Update, int kVectors, typename T>
__device__ inline void update_vector(const Ranges<T>& ranges, std::int64_t i, int v,
                                     Tile<kVectors, Update::kMoments>& held, const Update& update,
                                     const GradientScale& scale,
                                     const typename Update::Factors& factors) {
  using Float4 = Vector<float, kWidth>;
  constexpr int kSecond = Update::kMoments > 1 ? 1 : 0, kThird = Update::kMoments > 2 ? 2 : 0;
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    float g = 0;
    if constexpr (reads_gradients<Update>()) g = scale(held.gradients[v].v[j]);
    apply(update, factors, g, held.weights[v].v[j], held.moments[0][v].v[j],
          held.moments[kSecond][v].v[j], held.moments[kThird][v].v[j]);
  }
  *reinterpret_cast<Float4*>(ranges.weights + i) = held.weights[v];
  if constexpr (Update::kMoments > 0 && writes_moments<Update>()) {
    *reinterpret_cast<Float4*>(ranges.moment1 + i) = held.moments[0][v];
  }
  if constexpr (Update::kMoments > 1 && writes_moments<Update>()) {
    *reinterpret_cast<Float4*>(ranges.moment2 + i) = held.moments[1][v];
  }
  if constexpr (Update::kMoments > 2 && writes_moments<Update>()) {
    *reinterpret_cast<Float4*>(ranges.moment3 + i) = held.moments[2][v];
  }
  if (ranges.weight_cast != nullptr) {
    Vector<T, kWidth> narrow;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) narrow.v[j] = from_float<T>(held.weights[v].v[j]);
    *reinterpret_cast<Vector<T, kWidth>*>(ranges.weight_cast + i) = narrow;
  }
}

/// True if all elements of a tile are of one matrix.
template <int kVectors>
__device__ inline bool in_matrix(const StepInputs& step, std::int64_t tile) {
  constexpr std::int64_t kElements = std::int64_t(kVectors) * kThreads * kWidth;
  const std::int64_t begin = tile * kElements, end = begin + kElements;
  const int i = segment_at(step, begin);
  if (i == step.num_segments) return false;
  const Segment& s = step.segments[i];
  return s.rows > 0 && s.begin <= begin && end <= s.begin + s.count;
}

/// The whole pass. Update gives Shared (computed once a block by prepare()), Factors (once a
/// segment), and operator() for one element; kMoments says which of m1, m2, m3 it uses.
template <typename Update, int kVectors, typename T>
__global__ __launch_bounds__(kThreads) void update_kernel(Ranges<T> ranges, StepInputs step,
                                                          Update update) {
  __shared__ GradientScale shared_scale;
  __shared__ typename Update::Shared shared;
  Tile<kVectors, Update::kMoments> held;
  if constexpr (requires { Update::kLeavesMatrices; }) {
    if (in_matrix<kVectors>(step, blockIdx.x)) return;
  }
  load_tile<Update, kVectors>(ranges, blockIdx.x, held);
  const bool skip = *step.found_inf != 0;
  const float* row = step_row(step);
  if (threadIdx.x == 0) shared_scale = gradient_scale(step, step.grad_sumsq);
  update.prepare(step, shared);
  __syncthreads();
  if (skip) return;
  const GradientScale scale = shared_scale;

  OwnedRun<typename Update::Factors> run;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t first = element_of<kVectors>(blockIdx.x, v);
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

template <typename T>
Ranges<T> ranges_of(const KernelArgs& args, int num_moment_inputs, T* weight_cast) {
  const auto moment = [&](int index) {
    return index < num_moment_inputs && args.has_in(kFirstMoment + index)
               ? args.state<float>(kFirstMoment + index)
               : nullptr;
  };
  return {args.state<float>(kWeights),
          args.in<float>(kGradients),
          moment(0),
          moment(1),
          weight_cast,
          args.in_type(kWeights).shape.num_elements(),
          moment(2)};
}

template <typename Update, typename T>
void launch_typed(const KernelArgs& args, int num_moment_inputs, T* weight_cast,
                  const Update& update) {
  constexpr int kVectors = 2;
  const Ranges<T> ranges = ranges_of(args, num_moment_inputs, weight_cast);
  const std::int64_t tiles = ceil_div<std::int64_t>(ranges.count, kVectors * kThreads * kWidth);
  if (tiles == 0) return;
  LaunchShape shape;
  shape.grid.x = unsigned(tiles);
  shape.block.x = kThreads;
  launch(args, shape, update_kernel<Update, kVectors, T>, ranges, step_inputs(args), update);
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
