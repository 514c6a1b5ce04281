// SPDX-License-Identifier: Apache-2.0
#pragma once

// Elementwise functions that no product takes as its activation, once for all devices and dtypes:
//
//   y  = f(x)
//   dx = f.grad(saved, dy) where saved is y if F::kSaves is Saved::Y, else x
//
// F::kName is the op's name; a functor has as many fields as kNumAttrs says, set from the op's
// attributes in the order of its row in src/ops/math.cpp. Values at kinks are PyTorch's.

#include "backend/elementwise_functors.h"

namespace tr::functors {

/// Of the functors below without attributes.
struct NoAttrs {
  static constexpr int kNumAttrs = 0;
};
struct OneAttr {
  static constexpr int kNumAttrs = 1;
};
struct TwoAttrs {
  static constexpr int kNumAttrs = 2;
};

struct Log : NoAttrs {
  static constexpr std::string_view kName = "log";
  static constexpr Saved kSaves = Saved::X;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::log(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return dy / x;
  }
};

struct Log1p : NoAttrs {
  static constexpr std::string_view kName = "log1p";
  static constexpr Saved kSaves = Saved::X;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::log1p(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return dy / (T(1) + x);
  }
};

struct Expm1 : NoAttrs {
  static constexpr std::string_view kName = "expm1";
  static constexpr Saved kSaves = Saved::X;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::expm1(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return dy * std::exp(x);
  }
};

struct Sqrt : NoAttrs {
  static constexpr std::string_view kName = "sqrt";
  static constexpr Saved kSaves = Saved::Y;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::sqrt(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return dy / (T(2) * y);
  }
};

struct Rsqrt : NoAttrs {
  static constexpr std::string_view kName = "rsqrt";
  static constexpr Saved kSaves = Saved::Y;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return T(1) / std::sqrt(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return T(-0.5) * dy * (y * y * y);
  }
};

struct Reciprocal : NoAttrs {
  static constexpr std::string_view kName = "reciprocal";
  static constexpr Saved kSaves = Saved::Y;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return T(1) / x;
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return -dy * (y * y);
  }
};

struct Sin : NoAttrs {
  static constexpr std::string_view kName = "sin";
  static constexpr Saved kSaves = Saved::X;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::sin(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return dy * std::cos(x);
  }
};

struct Cos : NoAttrs {
  static constexpr std::string_view kName = "cos";
  static constexpr Saved kSaves = Saved::X;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::cos(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return -dy * std::sin(x);
  }
};

struct Erf : NoAttrs {
  static constexpr std::string_view kName = "erf";
  static constexpr Saved kSaves = Saved::X;
  static constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::erf(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return dy * T(kTwoOverSqrtPi) * std::exp(-x * x);
  }
};

struct Floor : NoAttrs {
  static constexpr std::string_view kName = "floor";
  static constexpr Saved kSaves = Saved::Y;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::floor(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T, T dy) const {
    return dy * T(0);
  }
};

struct Ceil : NoAttrs {
  static constexpr std::string_view kName = "ceil";
  static constexpr Saved kSaves = Saved::Y;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::ceil(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T, T dy) const {
    return dy * T(0);
  }
};

struct Round : NoAttrs {  // ties to even
  static constexpr std::string_view kName = "round";
  static constexpr Saved kSaves = Saved::Y;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::rint(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T, T dy) const {
    return dy * T(0);
  }
};

struct Sign : NoAttrs {
  static constexpr std::string_view kName = "sign";
  static constexpr Saved kSaves = Saved::Y;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x * T(0);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T, T dy) const {
    return dy * T(0);
  }
};

struct PowScalar : OneAttr {
  static constexpr std::string_view kName = "pow_scalar";
  static constexpr Saved kSaves = Saved::X;
  float exponent;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::pow(x, T(exponent));
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return exponent == 0 ? dy * T(0) : dy * T(exponent) * std::pow(x, T(exponent - 1));
  }
};

struct Affine : TwoAttrs {
  static constexpr std::string_view kName = "affine";
  static constexpr Saved kSaves = Saved::Y;
  float scale, shift;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return T(scale) * x + T(shift);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T, T dy) const {
    return T(scale) * dy;
  }
};

struct Clamp : TwoAttrs {
  static constexpr std::string_view kName = "clamp";
  static constexpr Saved kSaves = Saved::X;
  float low, high;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return at_most(T(high), at_least(T(low), x));
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return x >= T(low) && x <= T(high) ? dy : T(0);
  }
};

struct Threshold : TwoAttrs {
  static constexpr std::string_view kName = "threshold";
  static constexpr Saved kSaves = Saved::X;
  float threshold, value;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x <= T(threshold) ? T(value) : x;
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return x <= T(threshold) ? T(0) : dy;
  }
};

using MathTable = List<Log, Log1p, Expm1, Sqrt, Rsqrt, Reciprocal, Sin, Cos, Erf, Floor, Ceil,
                       Round, Sign, PowScalar, Affine, Clamp, Threshold>;

/// A functor with its attributes, in the order of its row.
template <typename Functor>
constexpr Functor make_math(float first, float second) {
  if constexpr (Functor::kNumAttrs == 2) {
    return Functor{{}, first, second};
  } else if constexpr (Functor::kNumAttrs == 1) {
    return Functor{{}, first};
  } else {
    return Functor{};
  }
}

/// Calls f.template operator()<Functor>() for each entry of the table.
template <typename F>
void for_each_math(F&& f) {
  for_each(MathTable{}, f);
}

/// Calls f(functor) for the entry of that name; false if there is none.
template <typename F>
bool visit_math(std::string_view name, float first, float second, F&& f) {
  bool found = false;
  for_each_math([&]<typename Functor>() {
    if (Functor::kName != name) return;
    f(make_math<Functor>(first, second));
    found = true;
  });
  return found;
}

}  // namespace tr::functors
