// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an optimizer's kernels know of a step: its tables and flags, what it does to every gradient,
// the segment table.

#include <limits>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"
#include "backend/optimizer_formulas.h"
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
  float* moment3 = nullptr;
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
using SegmentRates = formulas::Rates;

/// The elements [begin, end) that one segment owns, and the optimizer's factors for them.
template <typename Factors>
struct OwnedRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool frozen = true;
  Factors factors{};
};

/// The number of the first segment that ends behind element `i`; num_segments if none does.
__device__ inline int segment_at(const StepInputs& step, std::int64_t i) {
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
  return low;
}

/// The running step's row of step_floats.
__device__ inline const float* step_row(const StepInputs& step) {
  return step.step_floats + step.counters[kCounterRow] % step.capacity * step.columns;
}

__device__ inline SegmentRates rates_of(const Segment& s, const float* row) {
  const float* group = row + kFloatHeader + kGroupColumns * s.group;
  return {group[kGroupLr] * s.lr_scale, group[kGroupDecay] * s.decay_scale};
}

__device__ inline formulas::Momenta momenta_of(int group, const float* row) {
  const float* column = row + kFloatHeader + kGroupColumns * group;
  return {column[kGroupMomentum], column[kGroupBeta2]};
}

/// The first segment that ends behind element `i`, or the gap before it as a frozen run. Factors
/// may depend on the segment's number.
template <typename Update>
__device__ OwnedRun<typename Update::Factors> run_at(const StepInputs& step, const float* row,
                                                     const typename Update::Shared& shared,
                                                     const Update& update, std::int64_t i) {
  const int low = segment_at(step, i);
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
  run.begin = s.begin;
  run.end = s.begin + s.count;
  run.frozen = s.frozen != 0;
  if constexpr (requires { Update::kLeavesMatrices; }) run.frozen = run.frozen || s.rows > 0;
  if constexpr (requires { update.factors(shared, rates_of(s, row), low); }) {
    run.factors = update.factors(shared, rates_of(s, row), low);
  } else if constexpr (requires {
                         update.factors(shared, rates_of(s, row), momenta_of(s.group, row));
                       }) {
    run.factors = update.factors(shared, rates_of(s, row), momenta_of(s.group, row));
  } else {
    run.factors = update.factors(shared, rates_of(s, row));
  }
  return run;
}

}  // namespace tr::cuda::optimizer
