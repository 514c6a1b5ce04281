// SPDX-License-Identifier: Apache-2.0
// The small ops of a step: the loss's seed, records, counters, loss scale.
#include <algorithm>
#include <cmath>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/step_row.h"

namespace tr::cpu {
namespace {

constexpr float kSmallestLossScale = 1;

void launch_loss_seed(const KernelArgs& args) {
  args.out<float>(0)[0] = args.in<float>(2)[0] * step_row<float>(args, 1, 0)[kFloatInvWeight];
}

void launch_record_step(const KernelArgs& args) {
  const Shape& shape = args.in_type(0).shape;
  const std::int64_t place = args.in<std::int64_t>(1)[kCounterRow] % shape[0];
  float* row = args.state<float>(0) + place * shape[1];
  std::fill_n(row, shape[1], 0.0f);
  row[kResultLossSum] = args.in<float>(2)[0];
  if (args.has_in(3)) {
    row[kResultTop1] = float(args.in<std::int32_t>(3)[0]);
    row[kResultTop5] = float(args.in<std::int32_t>(3)[1]);
  }
  if (args.has_in(4)) row[kResultFoundInf] = float(args.in<std::int32_t>(4)[0]);
  const float loss_scale = args.has_in(6) ? args.in<float>(6)[0] : 1.0f;
  if (args.has_in(5)) row[kResultGradNorm] = std::sqrt(args.in<float>(5)[0]) / loss_scale;
  row[kResultLossScale] = loss_scale;
}

/// Growth counts good steps since the last overflow: every `growth_interval` of them double the
/// scale.
void launch_update_loss_scale(const KernelArgs& args) {
  float& scale = *args.state<float>(0);
  if (args.in<std::int32_t>(1)[0] != 0) {
    scale = std::max(kSmallestLossScale, scale * 0.5f);
    return;
  }
  const std::int64_t interval = args.attrs().i64("growth_interval");
  const std::int64_t good = args.in<std::int64_t>(2)[kCounterGoodInRow] + 1;
  if (interval > 0 && good % interval == 0 && std::isfinite(scale * 2.0f)) scale *= 2.0f;
}

void launch_advance_counters(const KernelArgs& args) {
  auto* counters = args.state<std::int64_t>(0);
  const bool last_micro = args.attrs().flag("last_micro");
  ++counters[kCounterRow];
  if (last_micro) ++counters[kCounterStep];
  if (!last_micro || !args.attrs().flag("training")) return;
  if (args.has_in(1) && args.in<std::int32_t>(1)[0] != 0) {
    ++counters[kCounterSkipped];
    ++counters[kCounterSkippedInRow];
    counters[kCounterGoodInRow] = 0;
  } else {
    ++counters[kCounterUpdates];
    counters[kCounterSkippedInRow] = 0;
    ++counters[kCounterGoodInRow];
  }
}

void launch_join_checks(const KernelArgs& args) {
  std::int32_t found_inf = 0;
  float grad_sumsq = 0;
  for (int i = 0; i < args.num_in(); i += 2) {
    if (args.in<std::int32_t>(i)[0] != 0) found_inf = 1;
    grad_sumsq += args.in<float>(i + 1)[0];
  }
  args.out<std::int32_t>(0)[0] = found_inf;
  args.out<float>(1)[0] = grad_sumsq;
}

const KernelRegistration kJoinChecks{simple_kernel("join_checks", launch_join_checks)};
const KernelRegistration kLossSeed{simple_kernel("loss_seed", launch_loss_seed)};
const KernelRegistration kRecordStep{simple_kernel("record_step", launch_record_step)};
const KernelRegistration kUpdateLossScale{
    simple_kernel("update_loss_scale", launch_update_loss_scale)};
const KernelRegistration kAdvance{simple_kernel("advance_counters", launch_advance_counters)};

}  // namespace
}  // namespace tr::cpu
