// SPDX-License-Identifier: Apache-2.0
#pragma once

// The formulas of the optimizers, one element at a time. kMoments says which of m, v are used;
// prepare() computes what a block needs once, factors() what a segment needs.

#include "backend/cuda/optimizer_step.cuh"

namespace tr::cuda::optimizer {

/// torch.optim.SGD, dampening 0.
template <int kNumMoments>
struct Sgd {
  static constexpr int kMoments = kNumMoments;
  struct Shared {};
  struct Factors {
    float lr, keep, coupled;
  };
  float momentum;
  bool nesterov;
  bool decoupled;

  __device__ void prepare(const StepInputs&, Shared&) const {}
  __device__ Factors factors(const Shared&, const SegmentRates& rates) const {
    return {rates.lr, decoupled ? 1.0f - rates.lr * rates.decay : 1.0f,
            decoupled ? 0.0f : rates.decay};
  }
  __device__ void operator()(const Factors& f, float gradient, float& w, float& m, float&) const {
    const float g = gradient + f.coupled * w;
    if constexpr (kMoments == 0) {
      w = w * f.keep - f.lr * g;
    } else {
      m = momentum * m + g;
      const float own = nesterov ? 1.0f : 0.0f, past = nesterov ? momentum : 1.0f;
      w = w * f.keep - f.lr * (own * g + past * m);
    }
  }
};

__device__ inline float fast_root(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}

/// torch.optim.Adam and AdamW (`decoupled`), amsgrad off.
struct Adam {
  static constexpr int kMoments = 2;
  struct Shared {
    double correction1;          // 1 - beta1^t
    float inv_sqrt_correction2;  // 1 / sqrt(1 - beta2^t)
  };
  struct Factors {
    float step, keep, coupled, root_scale;
  };
  double beta1;
  double beta2;
  float eps;
  bool decoupled;

  // Two warps, since a power in double takes about a microsecond.
  __device__ void prepare(const StepInputs& step, Shared& shared) const {
    const auto t = double(step.counters[kCounterUpdates] + 1);
    if (threadIdx.x == 32) shared.correction1 = 1.0 - pow(beta1, t);
    if (threadIdx.x == 64) {
      shared.inv_sqrt_correction2 = float(1.0 / sqrt(1.0 - pow(beta2, t)));
    }
  }
  __device__ Factors factors(const Shared& shared, const SegmentRates& rates) const {
    return {float(double(rates.lr) / shared.correction1),
            decoupled ? float(1.0 - double(rates.lr) * double(rates.decay)) : 1.0f,
            decoupled ? 0.0f : rates.decay, shared.inv_sqrt_correction2};
  }
  __device__ void operator()(const Factors& f, float gradient, float& w, float& m, float& v) const {
    const float old2 = float(beta2), new1 = 1.0f - float(beta1), new2 = 1.0f - old2;
    const float g = gradient + f.coupled * w;
    m = m + new1 * (g - m);
    v = old2 * v + new2 * (g * g);
    // The quotient and the root of the special function unit, 2 units in the last place at most: exact
    // ones would be half of the kernel's instructions.
    w = w * f.keep - f.step * __fdividef(m, fast_root(v) * f.root_scale + eps);
  }
};

template <int kNumMoments>
Sgd<kNumMoments> sgd_of(const Attrs& attrs) {
  return {attrs.f32("momentum"), attrs.flag("nesterov"), attrs.flag("decoupled")};
}

inline Adam adam_of(const Attrs& attrs) {
  return {attrs.f64("beta1"), attrs.f64("beta2"), attrs.f32("eps"), attrs.flag("decoupled")};
}

}  // namespace tr::cuda::optimizer
