// SPDX-License-Identifier: Apache-2.0
// sgd and adam over whole ranges: unscaling, clipping, decay, update and 16-bit copy in one pass.
#include "backend/cpu/optimizer_step.h"

namespace tr::cpu {
namespace {

/// torch.optim.SGD, dampening 0.
struct Sgd {
  float momentum;
  bool nesterov;
  bool decoupled;

  void operator()(const SegmentRates& rates, const Run& run) const {
    const float keep = decoupled ? 1.0f - rates.lr * rates.decay : 1.0f;
    const float coupled = decoupled ? 0.0f : rates.decay;
    if (run.moment1 == nullptr) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        const float g = run.gradients[i] + coupled * run.weights[i];
        run.weights[i] = run.weights[i] * keep - rates.lr * g;
      }
      return;
    }
    const float kept = momentum, own = nesterov ? 1.0f : 0.0f, past = nesterov ? momentum : 1.0f;
    for (std::int64_t i = 0; i < run.count; ++i) {
      const float g = run.gradients[i] + coupled * run.weights[i];
      const float m = kept * run.moment1[i] + g;
      run.moment1[i] = m;
      run.weights[i] = run.weights[i] * keep - rates.lr * (own * g + past * m);
    }
  }
};

/// torch.optim.Adam and AdamW (`decoupled`), amsgrad off.
struct Adam {
  float beta1;
  float beta2;
  float eps;
  bool decoupled;
  double correction1;          // 1 - beta1^t
  float inv_sqrt_correction2;  // 1 / sqrt(1 - beta2^t)

  void operator()(const SegmentRates& rates, const Run& run) const {
    const float keep = decoupled ? float(1.0 - double(rates.lr) * double(rates.decay)) : 1.0f;
    const float coupled = decoupled ? 0.0f : rates.decay;
    const auto step = float(double(rates.lr) / correction1);
    const float old2 = beta2, new1 = 1.0f - beta1, new2 = 1.0f - beta2;
    const float root_scale = inv_sqrt_correction2, epsilon = eps;
    float* __restrict__ weights = run.weights;
    float* __restrict__ moment1 = run.moment1;
    float* __restrict__ moment2 = run.moment2;
    const float* __restrict__ gradients = run.gradients;
    for (std::int64_t i = 0; i < run.count; ++i) {
      const float w = weights[i];
      const float g = gradients[i] + coupled * w;
      const float m = moment1[i] + new1 * (g - moment1[i]);
      const float v = old2 * moment2[i] + new2 * (g * g);
      moment1[i] = m;
      moment2[i] = v;
      weights[i] = w * keep - step * (m / (std::sqrt(v) * root_scale + epsilon));
    }
  }
};

Adam adam_of(const Attrs& attrs, double beta1, double beta2, std::int64_t updates) {
  const auto t = double(updates + 1);
  return {float(beta1),
          float(beta2),
          attrs.f32("eps"),
          attrs.flag("decoupled"),
          1.0 - std::pow(beta1, t),
          float(1.0 / std::sqrt(1.0 - std::pow(beta2, t)))};
}

std::int64_t updates_before(const KernelArgs& args) {
  return args.in<std::int64_t>(kCounters)[kCounterUpdates];
}

void launch_sgd(const KernelArgs& args) {
  const Attrs& attrs = args.attrs();
  update_all(args, 1, Sgd{attrs.f32("momentum"), attrs.flag("nesterov"), attrs.flag("decoupled")});
}

void launch_sgd_cycle(const KernelArgs& args) {
  const Attrs& attrs = args.attrs();
  const bool nesterov = attrs.flag("nesterov"), decoupled = attrs.flag("decoupled");
  update_all(args, 1,
             [=](const SegmentRates& rates, const formulas::Momenta& momenta, const Run& run) {
               Sgd{momenta.first, nesterov, decoupled}(rates, run);
             });
}

void launch_adam(const KernelArgs& args) {
  const Attrs& attrs = args.attrs();
  update_all(args, 2, adam_of(attrs, attrs.f64("beta1"), attrs.f64("beta2"), updates_before(args)));
}

void launch_adam_cycle(const KernelArgs& args) {
  const std::int64_t updates = updates_before(args);
  update_all(args, 2,
             [&](const SegmentRates& rates, const formulas::Momenta& momenta, const Run& run) {
               adam_of(args.attrs(), momenta.first, momenta.second, updates)(rates, run);
             });
}

const KernelRegistration kSgd{simple_kernel("sgd", launch_sgd)};
const KernelRegistration kAdam{simple_kernel("adam", launch_adam)};
const KernelRegistration kSgdCycle{simple_kernel("sgd_cycle", launch_sgd_cycle)};
const KernelRegistration kAdamCycle{simple_kernel("adam_cycle", launch_adam_cycle)};

}  // namespace
}  // namespace tr::cpu
