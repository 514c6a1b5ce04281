// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/segment_shares.h"
#include "backend/cpu/step_row.h"
#include "graph/memory_plan.h"

namespace tr::cpu {

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

/// What a step does to every gradient before the optimizer's own formula.
struct GradientScale {
  float factor = 1;                                      // 1 / loss_scale, times the clip by norm
  float limit = std::numeric_limits<float>::infinity();  // clip by value
  bool clips = false;

  explicit GradientScale(const KernelArgs& args) {
    const float loss_scale = args.in<float>(kLossScale)[0];
    const float clip_norm = args.attrs().f32("clip_norm"),
                clip_value = args.attrs().f32("clip_value");
    factor = 1.0f / loss_scale;
    if (clip_norm > 0) {
      const float norm = std::sqrt(args.in<float>(kGradSumsq)[0]) / loss_scale;
      factor *= std::min(1.0f, clip_norm / (norm + 1e-6f));
    }
    clips = clip_value > 0;
    if (clips) limit = clip_value;
  }
};

/// Rates of one segment in the running step.
struct SegmentRates {
  float lr = 0;
  float decay = 0;
};

/// A run of elements of one segment: pointers to its first element in each range. Missing ranges
/// are null.
struct Run {
  float* weights;
  const float* gradients;
  float* moment1;
  float* moment2;
  std::int64_t count;
};

/// Widened gradients of one block, unscaled and clipped.
inline void prepare_gradients(const GradientScale& scale, const float* gradients, float* out,
                              std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = gradients[i] * scale.factor;
  if (!scale.clips) return;
  for (std::int64_t i = 0; i < n; ++i) {
    const float low = out[i] < -scale.limit ? -scale.limit : out[i];
    out[i] = low > scale.limit ? scale.limit : low;
  }
}

/// One pass over all elements of all segments that are not frozen: update(rates, run), with at
/// most kRowBlock elements a run and the gradients ready to use, then the 16-bit copy. Nothing at
/// all if the step found a gradient that is not finite.
template <typename Update>
void update_all(const KernelArgs& args, int num_moments, Update&& update) {
  if (args.in<std::int32_t>(kFoundInf)[0] != 0) return;
  const GradientScale scale(args);
  const float* row = step_row<float>(args, kStepFloats, kCounters);
  const std::span<const Segment> segments(
      args.in<Segment>(kSegments), std::size_t(args.in_type(kSegments).shape[0]) / sizeof(Segment));
  auto* weights = args.state<float>(kWeights);
  const auto* gradients = args.in<float>(kGradients);
  const auto moment = [&](int index) {
    const int input = kFirstMoment + index;
    return index < num_moments && args.has_in(input) ? args.state<float>(input) : nullptr;
  };
  float *moment1 = moment(0), *moment2 = moment(1);
  const int cast = kFirstMoment + num_moments;
  const bool narrow = args.has_in(cast);

  const auto update_run = [&](const Segment& segment, std::int64_t begin, std::int64_t end) {
    const float* group = row + kFloatHeader + kGroupColumns * segment.group;
    const SegmentRates rates{group[kGroupLr] * segment.lr_scale,
                             group[kGroupDecay] * segment.decay_scale};
    float ready[kRowBlock];
    for (std::int64_t i = begin; i < end; i += kRowBlock) {
      const std::int64_t n = std::min(kRowBlock, end - i);
      prepare_gradients(scale, gradients + i, ready, n);
      update(rates, Run{weights + i, ready, moment1 ? moment1 + i : nullptr,
                        moment2 ? moment2 + i : nullptr, n});
      if (narrow) {
        dispatch_float(args.in_type(cast).dtype, [&](auto tag) {
          store_floats(weights + i, args.state<typename decltype(tag)::type>(cast) + i, n);
        });
      }
    }
  };
  for_shares(args.pool(), segments, [&](const Segment& segment, const Span& share) {
    if (segment.frozen == 0) update_run(segment, share.begin, share.end);
  });
}

}  // namespace tr::cpu
