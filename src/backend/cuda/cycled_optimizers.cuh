// SPDX-License-Identifier: Apache-2.0
#pragma once

// sgd and adam whose momentum a schedule moves from step to step.

#include "backend/cuda/optimizer_formulas.cuh"

namespace tr::cuda::optimizer {

/// The momentum that a schedule gave the running step.
__device__ inline float scheduled_momentum(const StepInputs& step, int group) {
  return step_row(step)[kFloatHeader + kGroupColumns * group + kGroupMomentum];
}

/// Sgd with the momentum of the step's row.
struct CycledSgd {
  static constexpr int kMoments = 1;
  struct Shared {
    float momentum;
  };
  struct Factors {
    Sgd<1>::Factors of;
    float momentum;
  };
  int group;
  bool nesterov;
  bool decoupled;

  __device__ void prepare(const StepInputs& step, Shared& shared) const {
    if (threadIdx.x == 32) shared.momentum = scheduled_momentum(step, group);
  }
  __device__ Factors factors(const Shared& shared, const SegmentRates& rates) const {
    return {Sgd<1>{shared.momentum, nesterov, decoupled}.factors({}, rates), shared.momentum};
  }
  __device__ void operator()(const Factors& f, float gradient, float& w, float& m,
                             float& other) const {
    Sgd<1>{f.momentum, nesterov, decoupled}(f.of, gradient, w, m, other);
  }
};

/// Adam with the momentum of the step's row as beta1.
struct CycledAdam {
  static constexpr int kMoments = 2;
  struct Shared {
    Adam::Shared of;
    float beta1;
  };
  struct Factors {
    Adam::Factors of;
    float beta1;
  };
  int group;
  double beta2;
  float eps;
  bool decoupled;

  __device__ Adam adam(float beta1) const { return {double(beta1), beta2, eps, decoupled}; }
  __device__ void prepare(const StepInputs& step, Shared& shared) const {
    const float beta1 = scheduled_momentum(step, group);
    adam(beta1).prepare(step, shared.of);
    if (threadIdx.x == 96) shared.beta1 = beta1;
  }
  __device__ Factors factors(const Shared& shared, const SegmentRates& rates) const {
    return {adam(shared.beta1).factors(shared.of, rates), shared.beta1};
  }
  __device__ void operator()(const Factors& f, float gradient, float& w, float& m, float& v) const {
    adam(f.beta1)(f.of, gradient, w, m, v);
  }
};

}  // namespace tr::cuda::optimizer
