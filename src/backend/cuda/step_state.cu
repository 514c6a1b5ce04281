// SPDX-License-Identifier: Apache-2.0
// The small ops of a step: the loss's seed, records, counters, loss scale. One thread each.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/step_tail.cuh"

namespace tr::cuda {
namespace {

const LaunchShape kOneThread{};

__global__ void loss_seed_kernel(const std::int64_t* counters, StepTable<const float> step_floats,
                                 const float* loss_scale, float* seed) {
  *seed = *loss_scale * step_floats.row(counters)[kFloatInvWeight];
}

void launch_loss_seed(const KernelArgs& args) {
  launch(args, kOneThread, loss_seed_kernel, args.in<std::int64_t>(0),
         StepTable<const float>(args.in<float>(1), args.in_type(1).shape), args.in<float>(2),
         args.out<float>(0));
}

__global__ void record_step_kernel(StepTable<float> results, const std::int64_t* counters,
                                   Measured measured) {
  record_step(results, counters, measured);
}

void launch_record_step(const KernelArgs& args) {
  launch(args, kOneThread, record_step_kernel,
         StepTable<float>(args.state<float>(0), args.in_type(0).shape), args.in<std::int64_t>(1),
         measured_of(args));
}

__global__ void update_loss_scale_kernel(float* loss_scale, const std::int32_t* found_inf,
                                         const std::int64_t* counters,
                                         std::int64_t growth_interval) {
  update_loss_scale(loss_scale, found_inf, counters, growth_interval);
}

void launch_update_loss_scale(const KernelArgs& args) {
  launch(args, kOneThread, update_loss_scale_kernel, args.state<float>(0), args.in<std::int32_t>(1),
         args.in<std::int64_t>(2), args.attrs().i64("growth_interval"));
}

__global__ void advance_counters_kernel(std::int64_t* counters, const std::int32_t* found_inf,
                                        bool last_micro, bool training) {
  advance_counters(counters, found_inf, last_micro, training);
}

void launch_advance_counters(const KernelArgs& args) {
  launch(args, kOneThread, advance_counters_kernel, args.state<std::int64_t>(0),
         optional_in<std::int32_t>(args, 1), args.attrs().flag("last_micro"),
         args.attrs().flag("training"));
}

struct Checks {
  static constexpr int kMost = 16;
  const std::int32_t* found_inf[kMost];
  const float* grad_sumsq[kMost];
  int count = 0;
};

__global__ void join_checks_kernel(Checks checks, std::int32_t* found_inf, float* grad_sumsq) {
  std::int32_t found = 0;
  float sum = 0;
  for (int i = 0; i < checks.count; ++i) {
    if (*checks.found_inf[i] != 0) found = 1;
    sum += *checks.grad_sumsq[i];
  }
  *found_inf = found;
  *grad_sumsq = sum;
}

void launch_join_checks(const KernelArgs& args) {
  Checks checks = {};
  for (int i = 0; i < args.num_in(); i += 2) {
    checks.found_inf[checks.count] = args.in<std::int32_t>(i);
    checks.grad_sumsq[checks.count++] = args.in<float>(i + 1);
  }
  launch(args, kOneThread, join_checks_kernel, checks, args.out<std::int32_t>(0),
         args.out<float>(1));
}

const KernelRegistration kJoinChecks{simple_kernel("join_checks", launch_join_checks)};
const KernelRegistration kLossSeed{simple_kernel("loss_seed", launch_loss_seed)};
const KernelRegistration kRecordStep{simple_kernel("record_step", launch_record_step)};
const KernelRegistration kUpdateLossScale{
    simple_kernel("update_loss_scale", launch_update_loss_scale)};
const KernelRegistration kAdvance{simple_kernel("advance_counters", launch_advance_counters)};

}  // namespace
}  // namespace tr::cuda
