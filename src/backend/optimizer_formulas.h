// SPDX-License-Identifier: Apache-2.0
#pragma once

// Optimizers' arithmetic, once for all devices. A formula F gives
//
//   F::kMoments            how many of m1, m2, m3 operator() reads and writes
//   F::Shared  f.shared(updates)         what all parameters share in a step; `updates`: steps
//                                        that changed the weights before this one
//   F::Factors f.factors(shared, rates)  what a segment needs
//   f(factors, g, w, m1, m2, m3)         updates one element; g is unscaled and clipped
//
// An adaptive formula (lars, lamb) is told the norms of a parameter in between:
//
//   f.measure(factors, g, w, m1, m2)     the two numbers whose squares are summed over a segment
//   f.trust_ratio(rates, |first|, |second|)
//   factors.ratio                        to be set to it before operator()
//   F::kMeasureMoments                   moments that measure() reads and writes
//   F::kFinishes                         operator() reads w and moments, and writes w alone
//
// `Math` supplies root and quotient, so that CUDA kernels can bring cheaper ones.

#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace tr::formulas {

/// Correctly rounded ones.
struct ExactMath {
  TR_HOST_DEVICE static float root(float x) { return std::sqrt(x); }
  TR_HOST_DEVICE static float quotient(float a, float b) { return a / b; }
};

/// Rates of one segment in the running step.
struct Rates {
  float lr, decay;
};

/// Of one segment in the running step, where they are no attributes: sgd's momentum, adam's betas.
struct Momenta {
  float first, second;
};

struct NoShared {};

/// Chen et al. 2023, arXiv:2302.06675; lion-pytorch.
struct Lion {
  static constexpr int kMoments = 1;
  using Shared = NoShared;
  struct Factors {
    float lr, keep;
  };
  float beta1, beta2;

  TR_HOST_DEVICE Shared shared(std::int64_t) const { return {}; }
  TR_HOST_DEVICE Factors factors(const Shared&, const Rates& r) const {
    return {r.lr, float(1.0 - double(r.lr) * double(r.decay))};
  }
  TR_HOST_DEVICE void operator()(const Factors& f, float g, float& w, float& m, float&,
                                 float&) const {
    const float c = beta1 * m + (1.0f - beta1) * g;
    const float sign = (c > 0.0f ? 1.0f : 0.0f) - (c < 0.0f ? 1.0f : 0.0f);
    w = w * f.keep - f.lr * sign;
    m = beta2 * m + (1.0f - beta2) * g;
  }
};

/// torch.optim.RMSprop. The moments are v, then (centered) the mean of g, then the momentum.
template <typename Math, bool kCentered, bool kMomentum>
struct RmsProp {
  static constexpr int kMoments = 1 + (kCentered ? 1 : 0) + (kMomentum ? 1 : 0);
  using Shared = NoShared;
  using Factors = Rates;
  float alpha, eps, momentum;

  TR_HOST_DEVICE Shared shared(std::int64_t) const { return {}; }
  TR_HOST_DEVICE Factors factors(const Shared&, const Rates& r) const { return r; }
  TR_HOST_DEVICE void operator()(const Factors& f, float gradient, float& w, float& v, float& m2,
                                 float& m3) const {
    const float g = gradient + f.decay * w;
    v = alpha * v + (1.0f - alpha) * (g * g);
    float square = v;
    if constexpr (kCentered) {
      m2 = m2 + (1.0f - alpha) * (g - m2);
      square = v - m2 * m2;
      square = square > 0.0f ? square : 0.0f;
    }
    float step = Math::quotient(g, Math::root(square) + eps);
    if constexpr (kMomentum) {
      float& m = kCentered ? m3 : m2;
      m = momentum * m + step;
      step = m;
    }
    w = w - f.lr * step;
  }
};

/// torch.optim.Adagrad; the sum is kept without what it begins at.
template <typename Math>
struct Adagrad {
  static constexpr int kMoments = 1;
  struct Shared {
    float scale;  // of the rate
  };
  using Factors = Rates;
  double lr_decay;
  float initial, eps;

  TR_HOST_DEVICE Shared shared(std::int64_t updates) const {
    return {float(1.0 / (1.0 + double(updates) * lr_decay))};
  }
  TR_HOST_DEVICE Factors factors(const Shared& s, const Rates& r) const {
    return {r.lr * s.scale, r.decay};
  }
  TR_HOST_DEVICE void operator()(const Factors& f, float gradient, float& w, float& sum, float&,
                                 float&) const {
    const float g = gradient + f.decay * w;
    sum = sum + g * g;
    w = w - f.lr * Math::quotient(g, Math::root(sum + initial) + eps);
  }
};

/// AdamW with its rate a multiple of the segment's. torch.optim.AdamW.
template <typename Math>
struct AdamW {
  static constexpr int kMoments = 2;
  struct Shared {
    double correction1;          // 1 - beta1^t
    float inv_sqrt_correction2;  // 1 / sqrt(1 - beta2^t)
  };
  struct Factors {
    float step, keep, root_scale;
  };
  double beta1, beta2, rate;
  float eps;

  TR_HOST_DEVICE Shared shared(std::int64_t updates) const {
    const auto t = double(updates + 1);
    return {1.0 - std::pow(beta1, t), float(1.0 / std::sqrt(1.0 - std::pow(beta2, t)))};
  }
  TR_HOST_DEVICE Factors factors(const Shared& s, const Rates& r) const {
    const double lr = double(r.lr) * rate;
    return {float(lr / s.correction1), float(1.0 - lr * double(r.decay)), s.inv_sqrt_correction2};
  }
  TR_HOST_DEVICE void operator()(const Factors& f, float g, float& w, float& m, float& v,
                                 float&) const {
    const float old2 = float(beta2);
    m = m + (1.0f - float(beta1)) * (g - m);
    v = old2 * v + (1.0f - old2) * (g * g);
    w = w * f.keep - f.step * Math::quotient(m, Math::root(v) * f.root_scale + eps);
  }
};

/// What a matrix's step takes from its segment's rates.
struct MuonRates {
  float keep, step;
};

/// Jordan et al. 2024; torch.optim.Muon around the products of Newton-Schulz.
struct MuonStep {
  float momentum, eps;
  bool nesterov, match_rms;

  /// What is made orthogonal.
  TR_HOST_DEVICE float direction(float g, float& m) const {
    m = m + (1.0f - momentum) * (g - m);
    return along(g, m);
  }
  /// The same of a momentum that has the gradient in it.
  TR_HOST_DEVICE float along(float g, float m) const {
    return nesterov ? g + momentum * (m - g) : m;
  }
  TR_HOST_DEVICE MuonRates rates(const Rates& r, std::int64_t rows, std::int64_t columns) const {
    const double tall = double(rows) / double(columns);
    const double longer = double(rows > columns ? rows : columns);
    const double adjusted = match_rms ? 0.2 * std::sqrt(longer) : std::sqrt(tall > 1 ? tall : 1.0);
    return {float(1.0 - double(r.lr) * double(r.decay)), float(double(r.lr) * adjusted)};
  }
};

/// Two numbers of an element: what is squared and summed.
struct Measured {
  float first, second;
};

/// |first| / |second| where both are above 0, else 1.
TR_HOST_DEVICE inline float ratio_of_norms(float scale, float first, float second,
                                           float denominator) {
  return first > 0.0f && second > 0.0f ? scale * first / denominator : 1.0f;
}

/// timm.optim.Lars; You, Gitman, Ginsburg 2017, arXiv:1708.03888 with `rate_in_momentum`.
template <int kNumMoments>
struct Lars {
  static constexpr int kMoments = kNumMoments;
  static constexpr int kMeasureMoments = 0;
  static constexpr bool kFinishes = false;
  using Shared = NoShared;
  struct Factors {
    float lr, decay, ratio;
  };
  float momentum, coefficient, eps;
  bool nesterov, trust_clip, always_adapt, rate_in_momentum;

  TR_HOST_DEVICE Shared shared(std::int64_t) const { return {}; }
  TR_HOST_DEVICE Factors factors(const Shared&, const Rates& r) const {
    return {r.lr, r.decay, 1.0f};
  }
  TR_HOST_DEVICE Measured measure(const Factors&, float g, float w, float&, float&) const {
    return {w, g};
  }
  TR_HOST_DEVICE float trust_ratio(const Rates& r, float weight_norm, float gradient_norm) const {
    if (r.decay == 0.0f && !always_adapt) return 1.0f;
    const float ratio = ratio_of_norms(coefficient, weight_norm, gradient_norm,
                                       gradient_norm + weight_norm * r.decay + eps);
    return trust_clip ? (ratio < r.lr ? ratio / r.lr : 1.0f) : ratio;
  }
  TR_HOST_DEVICE void operator()(const Factors& f, float gradient, float& w, float& m, float&,
                                 float&) const {
    const float g = f.ratio * (gradient + f.decay * w);
    if constexpr (kMoments == 0) {
      w = w - f.lr * g;
    } else {
      const float fresh = rate_in_momentum ? f.lr * g : g;
      m = momentum * m + fresh;
      const float step = nesterov ? g + momentum * m : m;
      w = w - (rate_in_momentum ? 1.0f : f.lr) * step;
    }
  }
};

/// You et al. 2019, arXiv:1904.00962; timm.optim.Lamb.
template <typename Math>
struct Lamb {
  static constexpr int kMoments = 2;
  static constexpr int kMeasureMoments = 2;
  static constexpr bool kFinishes = true;
  struct Shared {
    float inv_correction1;       // 1 / (1 - beta1^t)
    float inv_sqrt_correction2;  // 1 / sqrt(1 - beta2^t)
  };
  struct Factors {
    float lr, decay, inv_correction1, inv_sqrt_correction2, ratio;
  };
  double beta1, beta2;
  float eps;
  bool trust_clip, always_adapt;

  TR_HOST_DEVICE Shared shared(std::int64_t updates) const {
    const auto t = double(updates + 1);
    return {float(1.0 / (1.0 - std::pow(beta1, t))),
            float(1.0 / std::sqrt(1.0 - std::pow(beta2, t)))};
  }
  TR_HOST_DEVICE Factors factors(const Shared& s, const Rates& r) const {
    return {r.lr, r.decay, s.inv_correction1, s.inv_sqrt_correction2, 1.0f};
  }
  TR_HOST_DEVICE static float step(const Factors& f, float w, float m, float v, float eps) {
    return Math::quotient(m * f.inv_correction1, Math::root(v) * f.inv_sqrt_correction2 + eps) +
           f.decay * w;
  }
  TR_HOST_DEVICE Measured measure(const Factors& f, float g, float w, float& m, float& v) const {
    const float old2 = float(beta2);
    m = m + (1.0f - float(beta1)) * (g - m);
    v = old2 * v + (1.0f - old2) * (g * g);
    return {w, step(f, w, m, v, eps)};
  }
  TR_HOST_DEVICE float trust_ratio(const Rates& r, float weight_norm, float step_norm) const {
    if (r.decay == 0.0f && !always_adapt) return 1.0f;
    const float ratio = ratio_of_norms(1.0f, weight_norm, step_norm, step_norm);
    return trust_clip && ratio > 1.0f ? 1.0f : ratio;
  }
  TR_HOST_DEVICE void operator()(const Factors& f, float, float& w, float& m, float& v,
                                 float&) const {
    w = w - f.lr * f.ratio * step(f, w, m, v, eps);
  }
};

}  // namespace tr::formulas
