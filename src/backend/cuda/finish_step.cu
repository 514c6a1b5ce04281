// SPDX-License-Identifier: Apache-2.0
// finish_step: the record of a step, then the loss scale, then the counters, by one thread.
#include "backend/cuda/launch.h"
#include "backend/cuda/step_tail.cuh"

namespace tr::cuda {
namespace {

struct Tail {
  std::int64_t* counters;
  float* loss_scale;  // null: it stays
  std::int64_t growth_interval;
  bool last_micro, training;
};

__global__ void finish_step_kernel(StepTable<float> results, Measured measured, Tail tail) {
  record_step(results, tail.counters, measured);
  if (tail.loss_scale != nullptr) {
    update_loss_scale(tail.loss_scale, measured.found_inf, tail.counters, tail.growth_interval);
  }
  advance_counters(tail.counters, tail.training ? measured.found_inf : nullptr, tail.last_micro,
                   tail.training);
}

void launch_finish_step(const KernelArgs& args) {
  const Attrs& attrs = args.attrs();
  const Tail tail{args.state<std::int64_t>(1),
                  attrs.flag("scaling") ? args.state<float>(6) : nullptr,
                  attrs.i64("growth_interval"), attrs.flag("last_micro"), attrs.flag("training")};
  launch(args, LaunchShape{}, finish_step_kernel,
         StepTable<float>(args.state<float>(0), args.in_type(0).shape), measured_of(args), tail);
}

const KernelRegistration kFinishStep{simple_kernel("finish_step", launch_finish_step)};

}  // namespace
}  // namespace tr::cuda
