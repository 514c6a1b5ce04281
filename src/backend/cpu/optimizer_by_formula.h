// SPDX-License-Identifier: Apache-2.0
#pragma once

// Passes over whole ranges by the formulas of backend/optimizer_formulas.h.

#include <vector>

#include "backend/cpu/optimizer_step.h"

namespace tr::cpu {

/// `Formula` on each element of a run.
template <typename Formula>
void apply_formula(const Formula& formula, const typename Formula::Factors& factors,
                   const Run& run) {
  constexpr int kMoments = Formula::kMoments;
  float* __restrict__ weights = run.weights;
  float* __restrict__ moment1 = run.moment1;
  float* __restrict__ moment2 = run.moment2;
  float* __restrict__ moment3 = run.moment3;
  const float* __restrict__ gradients = run.gradients;
  const Formula f = formula;
  const typename Formula::Factors own = factors;
  for (std::int64_t i = 0; i < run.count; ++i) {
    float w = weights[i], m1 = 0, m2 = 0, m3 = 0;
    if constexpr (kMoments > 0) m1 = moment1[i];
    if constexpr (kMoments > 1) m2 = moment2[i];
    if constexpr (kMoments > 2) m3 = moment3[i];
    f(own, gradients[i], w, m1, m2, m3);
    weights[i] = w;
    if constexpr (kMoments > 0) moment1[i] = m1;
    if constexpr (kMoments > 1) moment2[i] = m2;
    if constexpr (kMoments > 2) moment3[i] = m3;
  }
}

template <typename Formula>
void update_by_formula(const KernelArgs& args, int num_moments, const Formula& formula) {
  const auto shared = formula.shared(args.in<std::int64_t>(kCounters)[kCounterUpdates]);
  update_all(args, num_moments, [&](const SegmentRates& rates, const Run& run) {
    apply_formula(formula, formula.factors(shared, rates), run);
  });
}

/// Sums of squares of the two numbers that an adaptive formula measures.
struct SquareSums {
  double first = 0, second = 0;
};

/// Bytes for the sums of all shares of all segments.
inline std::int64_t square_sums_bytes(const KernelQuery& query) {
  const std::int64_t segments = query.in[kSegments].shape[0] / std::int64_t(sizeof(Segment));
  return segments * kSegmentShares * std::int64_t(sizeof(SquareSums));
}

template <typename Formula>
SquareSums measure_run(const Formula& formula, const typename Formula::Factors& factors,
                       const Run& run) {
  SquareSums sums;
  for (std::int64_t i = 0; i < run.count; ++i) {
    float m1 = 0, m2 = 0;
    if constexpr (Formula::kMeasureMoments > 0) m1 = run.moment1[i], m2 = run.moment2[i];
    const formulas::Measured found =
        formula.measure(factors, run.gradients[i], run.weights[i], m1, m2);
    if constexpr (Formula::kMeasureMoments > 0) run.moment1[i] = m1, run.moment2[i] = m2;
    sums.first += double(found.first) * double(found.first);
    sums.second += double(found.second) * double(found.second);
  }
  return sums;
}

/// Two passes: the norms of each segment, summed share by share in their order, then the update.
template <typename Formula>
void update_adaptively(const KernelArgs& args, int num_moments, const Formula& formula) {
  const UpdateRanges ranges(args, num_moments);
  if (ranges.skips()) return;
  const std::span<const Segment> segments = ranges.segments();
  const auto shared = formula.shared(ranges.updates());
  auto* sums = reinterpret_cast<SquareSums*>(args.workspace());
  const auto share_sums = [&](const Segment& segment) {
    return sums + (&segment - segments.data()) * kSegmentShares;
  };
  for_tasks(args.pool(), kSegmentShares, [&](std::int64_t task) {
    for (const Segment& segment : segments) {
      if (segment.frozen != 0) continue;
      const auto factors = formula.factors(shared, ranges.rates(segment));
      const Span share = segment_share(segment, task);
      SquareSums sum;
      ranges.for_runs(share.begin, share.end, [&](const Run& run) {
        const SquareSums more = measure_run(formula, factors, run);
        sum.first += more.first;
        sum.second += more.second;
      });
      share_sums(segment)[task] = sum;
    }
  });
  for_shares(args.pool(), segments, [&](const Segment& segment, const Span& share) {
    if (segment.frozen != 0) return;
    SquareSums sum;
    for (std::int64_t i = 0; i < kSegmentShares; ++i) {
      sum.first += share_sums(segment)[i].first;
      sum.second += share_sums(segment)[i].second;
    }
    const SegmentRates rates = ranges.rates(segment);
    auto factors = formula.factors(shared, rates);
    factors.ratio =
        formula.trust_ratio(rates, float(std::sqrt(sum.first)), float(std::sqrt(sum.second)));
    ranges.for_runs(share.begin, share.end, [&](const Run& run) {
      apply_formula(formula, factors, run);
      ranges.narrow(run);
    });
  });
}

}  // namespace tr::cpu
