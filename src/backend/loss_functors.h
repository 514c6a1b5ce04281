// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arithmetic of losses of a prediction against a target of its shape, once for both backends. A
// functor is made from a node's arguments, `y` the place of the prediction among its inputs, and
// gives for element i of all samples
//
//   loss(y, target, i)    its part of the sample's loss
//   grad(y, target, i)    the derivative of that with respect to y
//
// kMean: a sample's loss is the mean over its elements, else their sum. NaN of y goes through, but
// in kl_div, whose gradient does not look at y.

#include <cmath>
#include <cstdint>

#include "backend/kernel.h"
#include "core/det_math.h"
#include "core/host_device.h"

namespace tr::losses {

TR_HOST_DEVICE inline float magnitude(float x) { return x < 0 ? -x : x; }
/// 1, -1, or x * 0: 0 stays 0, NaN stays NaN.
TR_HOST_DEVICE inline float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x * 0.0f; }
TR_HOST_DEVICE inline float sigmoid(float x) { return 1.0f / (1.0f + det::exp(-x)); }
TR_HOST_DEVICE inline float positive_part(float x) { return x > 0 ? x : x * 0.0f; }

struct Mse {
  static constexpr const char* kName = "mse";
  static constexpr bool kMean = true;
  Mse(const KernelArgs&, int) {}
  TR_HOST_DEVICE float loss(float y, float t, std::int64_t) const { return (y - t) * (y - t); }
  TR_HOST_DEVICE float grad(float y, float t, std::int64_t) const { return 2.0f * (y - t); }
};

struct L1 {
  static constexpr const char* kName = "l1";
  static constexpr bool kMean = true;
  L1(const KernelArgs&, int) {}
  TR_HOST_DEVICE float loss(float y, float t, std::int64_t) const { return magnitude(y - t); }
  TR_HOST_DEVICE float grad(float y, float t, std::int64_t) const { return sign(y - t); }
};

struct Huber {
  static constexpr const char* kName = "huber";
  static constexpr bool kMean = true;
  float delta;
  Huber(const KernelArgs& args, int) : delta(args.attrs().f32("delta")) {}
  TR_HOST_DEVICE float loss(float y, float t, std::int64_t) const {
    const float d = y - t, size = magnitude(d);
    return size <= delta ? 0.5f * d * d : delta * (size - 0.5f * delta);
  }
  TR_HOST_DEVICE float grad(float y, float t, std::int64_t) const {
    const float d = y - t;
    return d > delta ? delta : d < -delta ? -delta : d;
  }
};

struct SmoothL1 {
  static constexpr const char* kName = "smooth_l1";
  static constexpr bool kMean = true;
  float beta;
  SmoothL1(const KernelArgs& args, int) : beta(args.attrs().f32("beta")) {}
  TR_HOST_DEVICE float loss(float y, float t, std::int64_t) const {
    const float d = y - t, size = magnitude(d);
    return size < beta ? 0.5f * d * d / beta : size - 0.5f * beta;
  }
  TR_HOST_DEVICE float grad(float y, float t, std::int64_t) const {
    const float d = y - t;
    return magnitude(d) < beta ? d / beta : sign(d);
  }
};

struct BceWithLogits {
  static constexpr const char* kName = "bce_with_logits";
  static constexpr bool kMean = true;
  BceWithLogits(const KernelArgs&, int) {}
  TR_HOST_DEVICE float loss(float y, float t, std::int64_t) const {
    return positive_part(y) - y * t + log1pf(det::exp(-magnitude(y)));
  }
  TR_HOST_DEVICE float grad(float y, float t, std::int64_t) const { return sigmoid(y) - t; }
};

/// With a weight of target 1: one for all, or one for each place of the last axis.
struct WeightedBce {
  static constexpr bool kMean = true;
  const float* weight;
  std::int64_t places;
  WeightedBce(const KernelArgs& args, int y)
      : weight(args.in<float>(y + 2)), places(args.in_type(y + 2).shape[0]) {}
  TR_HOST_DEVICE float loss(float y, float t, std::int64_t i) const {
    const float soft = log1pf(det::exp(-magnitude(y))) + positive_part(-y);
    return (1.0f - t) * y + (1.0f + (weight[i % places] - 1.0f) * t) * soft;
  }
  TR_HOST_DEVICE float grad(float y, float t, std::int64_t i) const {
    return (1.0f - t) * sigmoid(y) - weight[i % places] * t * sigmoid(-y);
  }
};

/// Lin et al. 2017, arXiv:1708.02002.
struct Focal {
  static constexpr const char* kName = "focal";
  static constexpr bool kMean = true;
  float alpha, gamma;
  Focal(const KernelArgs& args, int)
      : alpha(args.attrs().f32("alpha")), gamma(args.attrs().f32("gamma")) {}
  TR_HOST_DEVICE float balance(float t) const {
    return alpha < 0 ? 1.0f : alpha * t + (1.0f - alpha) * (1.0f - t);
  }
  TR_HOST_DEVICE static float bce(float y, float t) {
    return positive_part(y) - y * t + log1pf(det::exp(-magnitude(y)));
  }
  TR_HOST_DEVICE float loss(float y, float t, std::int64_t) const {
    const float distance = sigmoid(y) * (1.0f - t) + sigmoid(-y) * t;
    return balance(t) * det::pow(distance, gamma) * bce(y, t);
  }
  TR_HOST_DEVICE float grad(float y, float t, std::int64_t) const {
    const float p = sigmoid(y), q = sigmoid(-y);
    const float distance = p * (1.0f - t) + q * t;
    const float slope = gamma * bce(y, t) * (2.0f * t - 1.0f) * p * q;
    // Where p or q is 0 so is the slope, whatever power of the distance stands before it.
    const float turned = slope == 0 ? slope : slope * det::pow(distance, gamma - 1.0f);
    // p - t without cancellation: p (1 - t) - q t.
    const float toward = p * (1.0f - t) - q * t;
    return balance(t) * (det::pow(distance, gamma) * toward - turned);
  }
};

struct KlDiv {
  static constexpr const char* kName = "kl_div";
  static constexpr bool kMean = false;
  bool log_target;
  KlDiv(const KernelArgs& args, int) : log_target(args.attrs().flag("log_target")) {}
  TR_HOST_DEVICE float loss(float y, float t, std::int64_t) const {
    if (log_target) return det::exp(t) * (t - y);
    return (t == 0 ? 0.0f : t * det::log(t)) - t * y;
  }
  TR_HOST_DEVICE float grad(float, float t, std::int64_t) const {
    return -(log_target ? det::exp(t) : t);
  }
};

/// Calls f.template operator()<Functor>() for each op's plain functor.
template <typename F>
void for_each(F&& f) {
  f.template operator()<Mse>();
  f.template operator()<L1>();
  f.template operator()<Huber>();
  f.template operator()<SmoothL1>();
  f.template operator()<BceWithLogits>();
  f.template operator()<Focal>();
  f.template operator()<KlDiv>();
}

}  // namespace tr::losses
