// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a step leaves behind, as functions of one thread: the record, the loss scale, the counters.

#include "backend/cuda/step_row.cuh"
#include "backend/kernel.h"

namespace tr::cuda {

constexpr float kSmallestLossScale = 1;

/// Input i, null if it is missing.
template <typename T>
const T* optional_in(const KernelArgs& args, int i) {
  return args.has_in(i) ? args.in<T>(i) : nullptr;
}

struct Measured {
  const float* loss_sum;
  const std::int32_t *correct, *found_inf;  // null: not measured
  const float *grad_sumsq, *loss_scale;
};

/// Inputs 2 to 6 of record_step and finish_step.
inline Measured measured_of(const KernelArgs& args) {
  return {args.in<float>(2), optional_in<std::int32_t>(args, 3), optional_in<std::int32_t>(args, 4),
          optional_in<float>(args, 5), optional_in<float>(args, 6)};
}

__device__ inline void record_step(StepTable<float> results, const std::int64_t* counters,
                                   const Measured& measured) {
  float row[kResultColumns] = {};
  row[kResultLossSum] = *measured.loss_sum;
  if (measured.correct != nullptr) {
    row[kResultTop1] = float(measured.correct[0]);
    row[kResultTop5] = float(measured.correct[1]);
  }
  if (measured.found_inf != nullptr) row[kResultFoundInf] = float(*measured.found_inf);
  row[kResultLossScale] = measured.loss_scale != nullptr ? *measured.loss_scale : 1.0f;
  if (measured.grad_sumsq != nullptr) {
    row[kResultGradNorm] = sqrtf(*measured.grad_sumsq) / row[kResultLossScale];
  }
  float* to = results.row(counters);
  for (int i = 0; i < kResultColumns; ++i) to[i] = row[i];
}

/// Growth counts good steps since the last overflow: every `growth_interval` of them double the
/// scale.
__device__ inline void update_loss_scale(float* loss_scale, const std::int32_t* found_inf,
                                         const std::int64_t* counters,
                                         std::int64_t growth_interval) {
  const float scale = *loss_scale;
  if (*found_inf != 0) {
    const float half = scale * 0.5f;
    *loss_scale = kSmallestLossScale < half ? half : kSmallestLossScale;
    return;
  }
  const std::int64_t good = counters[kCounterGoodInRow] + 1;
  const bool grows = growth_interval > 0 && good % growth_interval == 0;
  if (grows && isfinite(scale * 2.0f)) *loss_scale = scale * 2.0f;
}

/// `found_inf` may be null: the step was good.
__device__ inline void advance_counters(std::int64_t* counters, const std::int32_t* found_inf,
                                        bool last_micro, bool training) {
  ++counters[kCounterRow];
  if (last_micro) ++counters[kCounterStep];
  if (!last_micro || !training) return;
  if (found_inf != nullptr && *found_inf != 0) {
    ++counters[kCounterSkipped];
    ++counters[kCounterSkippedInRow];
    counters[kCounterGoodInRow] = 0;
  } else {
    ++counters[kCounterUpdates];
    counters[kCounterSkippedInRow] = 0;
    ++counters[kCounterGoodInRow];
  }
}

}  // namespace tr::cuda
