// SPDX-License-Identifier: Apache-2.0
#pragma once

// Passes over whole ranges by the formulas of backend/optimizer_formulas.h. An adaptive optimizer
// takes three launches: the squares of each (tile, segment), their sums over the segments, which
// give the ratios, and the update. All sums have an order that depends on the segment table alone.

#include "backend/cuda/grid_sum.cuh"
#include "backend/cuda/optimizer_formulas.cuh"
#include "backend/cuda/optimizer_pass.cuh"

namespace tr::cuda::optimizer {

/// As adam's: the special function unit's, 2 units in the last place at most.
struct FastMath {
  __device__ static float root(float x) { return fast_root(x); }
  __device__ static float quotient(float a, float b) { return __fdividef(a, b); }
};

/// The update of update_kernel() by a formula; `ratios` has one number a segment, or is null.
template <typename Formula>
struct ByFormula {
  static constexpr int kMoments = Formula::kMoments;
  static constexpr bool kAdaptive = requires { Formula::kFinishes; };
  static constexpr bool finishes() {
    if constexpr (kAdaptive) return Formula::kFinishes;
    return false;
  }
  static constexpr bool kReadsGradients = !finishes();
  static constexpr bool kWritesMoments = !finishes();
  using Shared = typename Formula::Shared;
  using Factors = typename Formula::Factors;
  Formula formula;
  const float* ratios = nullptr;

  __device__ void prepare(const StepInputs& step, Shared& shared) const {
    if (threadIdx.x == 32) shared = formula.shared(step.counters[kCounterUpdates]);
  }
  __device__ Factors factors(const Shared& shared, const SegmentRates& rates, int segment) const {
    Factors factors = formula.factors(shared, rates);
    if constexpr (kAdaptive) factors.ratio = ratios[segment];
    return factors;
  }
  __device__ void operator()(const Factors& f, float gradient, float& w, float& m1, float& m2,
                             float& m3) const {
    formula(f, gradient, w, m1, m2, m3);
  }
};

constexpr std::int64_t kMeasureTile = 8192;  // elements a block

struct SquareSums {
  double first, second;
};

/// A tile and a segment that share elements have the place tile + segment: both grow along the
/// range, so no two pairs have the same one.
struct AdaptiveWorkspace {
  SquareSums* sums;
  float* ratios;
};
inline std::int64_t num_square_sums(std::int64_t elements, std::int64_t segments) {
  return ceil_div(elements, kMeasureTile) + segments;
}
inline std::int64_t adaptive_workspace_bytes(const KernelQuery& query) {
  const std::int64_t segments = query.in[kSegments].shape[0] / std::int64_t(sizeof(Segment));
  return num_square_sums(query.in[kWeights].shape.num_elements(), segments) *
             std::int64_t(sizeof(SquareSums)) +
         segments * std::int64_t(sizeof(float));
}
inline AdaptiveWorkspace adaptive_workspace(const KernelArgs& args, int num_segments) {
  auto* sums = reinterpret_cast<SquareSums*>(args.workspace());
  const std::int64_t count =
      num_square_sums(args.in_type(kWeights).shape.num_elements(), num_segments);
  return {sums, reinterpret_cast<float*>(sums + count)};
}

/// What measure() finds in the elements [begin, end) of one segment, by all threads of the block.
template <typename Formula>
__device__ SquareSums measure_elements(const Formula& formula,
                                       const typename Formula::Factors& factors,
                                       const GradientScale& scale, const Ranges<__half>& ranges,
                                       std::int64_t begin, std::int64_t end) {
  float first = 0, second = 0;
  const auto add = [&](float g, float w, float& m1, float& m2) {
    const formulas::Measured found = formula.measure(factors, scale(g), w, m1, m2);
    first += found.first * found.first;
    second += found.second * found.second;
  };
  constexpr bool kMoves = Formula::kMeasureMoments > 0;
  using Float4 = Vector<float, kWidth>;
  const std::int64_t whole = begin % kWidth == 0 ? begin + (end - begin) / kWidth * kWidth : begin;
  for (std::int64_t i = begin + std::int64_t(threadIdx.x) * kWidth; i < whole;
       i += kThreads * kWidth) {
    const auto g = *reinterpret_cast<const Float4*>(ranges.gradients + i);
    const auto w = *reinterpret_cast<const Float4*>(ranges.weights + i);
    Float4 m1{}, m2{};
    if constexpr (kMoves) {
      m1 = *reinterpret_cast<const Float4*>(ranges.moment1 + i);
      m2 = *reinterpret_cast<const Float4*>(ranges.moment2 + i);
    }
#pragma unroll
    for (int j = 0; j < kWidth; ++j) add(g.v[j], w.v[j], m1.v[j], m2.v[j]);
    if constexpr (kMoves) {
      *reinterpret_cast<Float4*>(ranges.moment1 + i) = m1;
      *reinterpret_cast<Float4*>(ranges.moment2 + i) = m2;
    }
  }
  for (std::int64_t i = whole + threadIdx.x; i < end; i += kThreads) {
    float m1 = kMoves ? ranges.moment1[i] : 0.0f, m2 = kMoves ? ranges.moment2[i] : 0.0f;
    add(ranges.gradients[i], ranges.weights[i], m1, m2);
    if constexpr (kMoves) {
      ranges.moment1[i] = m1;
      ranges.moment2[i] = m2;
    }
  }
  return {double(first), double(second)};
}

template <typename Formula>
__global__ __launch_bounds__(kThreads) void measure_kernel(Ranges<__half> ranges, StepInputs step,
                                                           Formula formula, SquareSums* sums) {
  __shared__ GradientScale shared_scale;
  __shared__ typename Formula::Shared shared;
  if (*step.found_inf != 0) return;
  if (threadIdx.x == 0) shared_scale = gradient_scale(step, step.grad_sumsq);
  if (threadIdx.x == 32) shared = formula.shared(step.counters[kCounterUpdates]);
  __syncthreads();
  const GradientScale scale = shared_scale;
  const float* row = step_row(step);
  const std::int64_t begin = std::int64_t(blockIdx.x) * kMeasureTile;
  const std::int64_t end =
      begin + kMeasureTile < ranges.count ? begin + kMeasureTile : ranges.count;
  for (int s = segment_at(step, begin); s < step.num_segments; ++s) {
    const Segment& segment = step.segments[s];
    if (segment.begin >= end) break;
    if (segment.frozen != 0) continue;
    const std::int64_t from = segment.begin > begin ? segment.begin : begin;
    const std::int64_t behind = segment.begin + segment.count;
    const auto factors = formula.factors(shared, rates_of(segment, row));
    SquareSums sum =
        measure_elements(formula, factors, scale, ranges, from, behind < end ? behind : end);
    __syncthreads();
    sum.first = block_sum(sum.first);
    __syncthreads();
    sum.second = block_sum(sum.second);
    if (threadIdx.x == 0) sums[blockIdx.x + s] = sum;
  }
}

/// A block a segment.
template <typename Formula>
__global__ __launch_bounds__(kThreads) void ratio_kernel(StepInputs step, Formula formula,
                                                         const SquareSums* sums, float* ratios) {
  const int s = int(blockIdx.x);
  const Segment& segment = step.segments[s];
  if (*step.found_inf != 0 || segment.frozen != 0 || segment.count == 0) return;
  const std::int64_t first = segment.begin / kMeasureTile;
  const std::int64_t last = (segment.begin + segment.count - 1) / kMeasureTile;
  SquareSums sum{0, 0};
  for (std::int64_t tile = first + threadIdx.x; tile <= last; tile += kThreads) {
    sum.first += sums[tile + s].first;
    sum.second += sums[tile + s].second;
  }
  sum.first = block_sum(sum.first);
  __syncthreads();
  sum.second = block_sum(sum.second);
  if (threadIdx.x == 0) {
    ratios[s] = formula.trust_ratio(rates_of(segment, step_row(step)), float(sqrt(sum.first)),
                                    float(sqrt(sum.second)));
  }
}

template <typename Formula>
void update_adaptively(const KernelArgs& args, int num_moment_inputs, const Formula& formula) {
  const StepInputs step = step_inputs(args);
  const auto ranges = ranges_of<__half>(args, num_moment_inputs, nullptr);
  if (ranges.count == 0 || step.num_segments == 0) return;
  const AdaptiveWorkspace workspace = adaptive_workspace(args, step.num_segments);
  LaunchShape shape;
  shape.block.x = kThreads;
  shape.grid.x = unsigned(ceil_div(ranges.count, kMeasureTile));
  launch(args, shape, measure_kernel<Formula>, ranges, step, formula, workspace.sums);
  shape.grid.x = unsigned(step.num_segments);
  launch(args, shape, ratio_kernel<Formula>, step, formula,
         static_cast<const SquareSums*>(workspace.sums), workspace.ratios);
  update_all(args, num_moment_inputs, ByFormula<Formula>{formula, workspace.ratios});
}

template <typename Formula>
void update_by_formula(const KernelArgs& args, int num_moment_inputs, const Formula& formula) {
  update_all(args, num_moment_inputs, ByFormula<Formula>{formula});
}

}  // namespace tr::cuda::optimizer
