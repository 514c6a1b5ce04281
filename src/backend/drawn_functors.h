// SPDX-License-Identifier: Apache-2.0
#pragma once

// Functions of an element and a draw of its own, once for all devices:
//
//   y  = f(x, word)             word: the element's draw, see backend/dropout_draw.h
//   dx = f.grad(x, dy, word)    x is read only if F::kReadsX
//
// F::kName is the op's name. Sums of products are fused by name, so that all devices round alike.

#include <cmath>
#include <cstdint>
#include <string_view>

#include "backend/dropout_draw.h"
#include "core/host_device.h"
#include "renaissance/graph/attrs.h"

namespace tr::functors {

/// Xu et al. 2015, arXiv:1505.00853: a slope below 0 drawn from [lower, lower + span).
struct RandomSlope {
  static constexpr std::string_view kName = "rrelu";
  static constexpr bool kReadsX = true;
  float lower, span;

  static RandomSlope of(const Attrs& a) {
    return {a.f32("lower"), float(a.f64("upper") - a.f64("lower"))};
  }
  TR_HOST_DEVICE float slope(std::uint32_t word) const {
    return std::fma(span, uniform01(word), lower);
  }
  TR_HOST_DEVICE float operator()(float x, std::uint32_t word) const {
    return x > 0.0f ? x : slope(word) * x;
  }
  TR_HOST_DEVICE float grad(float x, float dy, std::uint32_t word) const {
    return x > 0.0f ? dy : slope(word) * dy;
  }
};

/// Klambauer et al. 2017, arXiv:1706.02515: what is dropped becomes selu's limit, and the whole is
/// scaled and shifted so that mean 0 and variance 1 stay.
struct AlphaDropout {
  static constexpr std::string_view kName = "alpha_dropout";
  static constexpr bool kReadsX = false;
  static constexpr double kLimit = -1.7580993408473766;  // of selu at minus infinity
  std::uint32_t threshold;
  float scale, shift, dropped;

  static AlphaDropout of(const Attrs& a) {
    const double p = a.f64("p");
    const double scale = 1 / std::sqrt((1 - p) * (1 + p * kLimit * kLimit));
    const double shift = -scale * p * kLimit;
    return {dropout_threshold(p), float(scale), float(shift), float(scale * kLimit + shift)};
  }
  TR_HOST_DEVICE bool keeps(std::uint32_t word) const { return (word >> 8) >= threshold; }
  TR_HOST_DEVICE float operator()(float x, std::uint32_t word) const {
    return keeps(word) ? std::fma(scale, x, shift) : dropped;
  }
  TR_HOST_DEVICE float grad(float, float dy, std::uint32_t word) const {
    return keeps(word) ? scale * dy : 0.0f;
  }
};

}  // namespace tr::functors
