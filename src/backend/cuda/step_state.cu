// SPDX-License-Identifier: Apache-2.0
// The small ops of a step: the loss's seed, records, counters, loss scale. One thread each.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/step_row.cuh"

namespace tr::cuda {
namespace {

constexpr float kSmallestLossScale = 1;

const LaunchShape kOneThread{};

/// Input i, null if it is missing.
template <typename T>
const T* optional_in(const KernelArgs& args, int i) {
  return args.has_in(i) ? args.in<T>(i) : nullptr;
}

__global__ void loss_seed_kernel(const std::int64_t* counters, StepTable<const float> step_floats,
                                 const float* loss_scale, float* seed) {
  *seed = *loss_scale * step_floats.row(counters)[kFloatInvWeight];
}

void launch_loss_seed(const KernelArgs& args) {
  launch(args, kOneThread, loss_seed_kernel, args.in<std::int64_t>(0),
         StepTable<const float>(args.in<float>(1), args.in_type(1).shape), args.in<float>(2),
         args.out<float>(0));
}

struct Measured {
  const float* loss_sum;
  const std::int32_t *correct, *found_inf;  // null: not measured
  const float *grad_sumsq, *loss_scale;
};

__global__ void record_step_kernel(StepTable<float> results, const std::int64_t* counters,
                                   Measured measured) {
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

void launch_record_step(const KernelArgs& args) {
  const Measured measured{args.in<float>(2), optional_in<std::int32_t>(args, 3),
                          optional_in<std::int32_t>(args, 4), optional_in<float>(args, 5),
                          optional_in<float>(args, 6)};
  launch(args, kOneThread, record_step_kernel,
         StepTable<float>(args.state<float>(0), args.in_type(0).shape), args.in<std::int64_t>(1),
         measured);
}

/// Growth counts good steps since the last overflow: every `growth_interval` of them double the
/// scale.
__global__ void update_loss_scale_kernel(float* loss_scale, const std::int32_t* found_inf,
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

void launch_update_loss_scale(const KernelArgs& args) {
  launch(args, kOneThread, update_loss_scale_kernel, args.state<float>(0), args.in<std::int32_t>(1),
         args.in<std::int64_t>(2), args.attrs().i64("growth_interval"));
}

/// `found_inf` may be null: the step was good.
__global__ void advance_counters_kernel(std::int64_t* counters, const std::int32_t* found_inf,
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

void launch_advance_counters(const KernelArgs& args) {
  launch(args, kOneThread, advance_counters_kernel, args.state<std::int64_t>(0),
         optional_in<std::int32_t>(args, 1), args.attrs().flag("last_micro"),
         args.attrs().flag("training"));
}

const KernelRegistration kLossSeed{simple_kernel("loss_seed", launch_loss_seed)};
const KernelRegistration kRecordStep{simple_kernel("record_step", launch_record_step)};
const KernelRegistration kUpdateLossScale{
    simple_kernel("update_loss_scale", launch_update_loss_scale)};
const KernelRegistration kAdvance{simple_kernel("advance_counters", launch_advance_counters)};

}  // namespace
}  // namespace tr::cuda
