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
#include "backend/optimizer_formulas.h"
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
using SegmentRates = formulas::Rates;

/// A run of elements of one segment: pointers to its first element in each range. Missing ranges
/// are null.
struct Run {
  float* weights;
  const float* gradients;
  float* moment1;
  float* moment2;
  float* moment3;
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

/// The ranges and tables of an optimizer's launch. `num_moments` places of moments stand before
/// weight_cast, and `num_states` of state of its own between them.
class UpdateRanges {
 public:
  UpdateRanges(const KernelArgs& args, int num_moments, int num_states = 0)
      : args_(args),
        scale_(args),
        row_(step_row<float>(args, kStepFloats, kCounters)),
        weights_(args.state<float>(kWeights)),
        gradients_(args.in<float>(kGradients)),
        cast_(kFirstMoment + num_moments + num_states) {
    for (int i = 0; i < num_moments; ++i) {
      const int input = kFirstMoment + i;
      if (args.has_in(input)) moments_[i] = args.state<float>(input);
    }
  }

  /// The step found a gradient that is not finite: nothing may change.
  bool skips() const { return args_.in<std::int32_t>(kFoundInf)[0] != 0; }
  std::int64_t updates() const { return args_.in<std::int64_t>(kCounters)[kCounterUpdates]; }
  std::span<const Segment> segments() const {
    return {args_.in<Segment>(kSegments),
            std::size_t(args_.in_type(kSegments).shape[0]) / sizeof(Segment)};
  }
  const float* weights() const { return weights_; }
  SegmentRates rates(const Segment& segment) const {
    const float* group = row_ + kFloatHeader + kGroupColumns * segment.group;
    return {group[kGroupLr] * segment.lr_scale, group[kGroupDecay] * segment.decay_scale};
  }
  formulas::Momenta momenta(const Segment& segment) const {
    const float* group = row_ + kFloatHeader + kGroupColumns * segment.group;
    return {group[kGroupMomentum], group[kGroupBeta2]};
  }

  /// f(run) for the elements [begin, end), at most kRowBlock a run and the gradients ready to use.
  template <typename F>
  void for_runs(std::int64_t begin, std::int64_t end, F&& f) const {
    float ready[kRowBlock];
    for (std::int64_t i = begin; i < end; i += kRowBlock) {
      const std::int64_t n = std::min(kRowBlock, end - i);
      prepare_gradients(scale_, gradients_ + i, ready, n);
      const auto moment = [&](int k) { return moments_[k] ? moments_[k] + i : nullptr; };
      f(Run{weights_ + i, ready, moment(0), moment(1), moment(2), n});
    }
  }

  /// The 16-bit copy of a run, if there is one.
  void narrow(const Run& run) const {
    if (!args_.has_in(cast_)) return;
    dispatch_float(args_.in_type(cast_).dtype, [&](auto tag) {
      auto* copy = args_.state<typename decltype(tag)::type>(cast_);
      store_floats(run.weights, copy + (run.weights - weights_), run.count);
    });
  }

 private:
  const KernelArgs& args_;
  const GradientScale scale_;
  const float* row_;
  float* weights_;
  const float* gradients_;
  float* moments_[3] = {nullptr, nullptr, nullptr};
  int cast_;
};

/// One pass over all elements of all segments that are not frozen: update(rates, run), or
/// update(rates, momenta, run), then the 16-bit copy. Nothing at all if the step found a gradient
/// that is not finite.
template <typename Update>
void update_all(const KernelArgs& args, int num_moments, Update&& update) {
  const UpdateRanges ranges(args, num_moments);
  if (ranges.skips()) return;
  for_shares(args.pool(), ranges.segments(), [&](const Segment& segment, const Span& share) {
    if (segment.frozen != 0) return;
    const SegmentRates rates = ranges.rates(segment);
    ranges.for_runs(share.begin, share.end, [&](const Run& run) {
      if constexpr (requires { update(rates, ranges.momenta(segment), run); }) {
        update(rates, ranges.momenta(segment), run);
      } else {
        update(rates, run);
      }
      ranges.narrow(run);
    });
  });
}

}  // namespace tr::cpu
