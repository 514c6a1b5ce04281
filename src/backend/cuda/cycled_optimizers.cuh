// SPDX-License-Identifier: Apache-2.0
#pragma once

// sgd and adam whose momentum or betas a schedule moves from step to step, or parameter groups set.

#include "backend/cuda/optimizer_formulas.cuh"

namespace tr::cuda::optimizer {

/// Sgd with the momentum of the step's row.
struct CycledSgd {
  static constexpr int kMoments = 1;
  struct Shared {};
  struct Factors {
    Sgd<1>::Factors of;
    float momentum;
  };
  bool nesterov;
  bool decoupled;

  __device__ void prepare(const StepInputs&, Shared&) const {}
  __device__ Factors factors(const Shared&, const SegmentRates& rates,
                             const formulas::Momenta& momenta) const {
    return {Sgd<1>{momenta.first, nesterov, decoupled}.factors({}, rates), momenta.first};
  }
  __device__ void operator()(const Factors& f, float gradient, float& w, float& m,
                             float& other) const {
    Sgd<1>{f.momentum, nesterov, decoupled}(f.of, gradient, w, m, other);
  }
};

/// Adam with the betas of the step's row. Their powers are computed once a block for those of
/// `group`; a segment with others costs its threads two powers each.
struct CycledAdam {
  static constexpr int kMoments = 2;
  struct Shared {
    Adam::Shared of;
    formulas::Momenta betas;
    double t;
  };
  struct Factors {
    Adam::Factors of;
    formulas::Momenta betas;
  };
  int group;
  float eps;
  bool decoupled;

  __device__ Adam adam(const formulas::Momenta& betas) const {
    return {double(betas.first), double(betas.second), eps, decoupled};
  }
  __device__ void prepare(const StepInputs& step, Shared& shared) const {
    const formulas::Momenta betas = momenta_of(group, step_row(step));
    adam(betas).prepare(step, shared.of);
    if (threadIdx.x != 96) return;
    shared.betas = betas;
    shared.t = double(step.counters[kCounterUpdates] + 1);
  }
  __device__ Factors factors(const Shared& shared, const SegmentRates& rates,
                             const formulas::Momenta& betas) const {
    if (betas.first == shared.betas.first && betas.second == shared.betas.second) {
      return {adam(betas).factors(shared.of, rates), betas};
    }
    const Adam::Shared own{1.0 - pow(double(betas.first), shared.t),
                           float(1.0 / sqrt(1.0 - pow(double(betas.second), shared.t)))};
    return {adam(betas).factors(own, rates), betas};
  }
  __device__ void operator()(const Factors& f, float gradient, float& w, float& m, float& v) const {
    adam(f.betas)(f.of, gradient, w, m, v);
  }
};

}  // namespace tr::cuda::optimizer
