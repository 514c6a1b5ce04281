// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arithmetic of every elementwise op, once for all devices and dtypes. A functor F of the table
// gives
//
//   y  = f(x)              for x of type T (float in kernels, double in the gradient test)
//   dx = f.grad(saved, dy) where saved is y if F::kSaves is Saved::Y, else x
//
// F::kName is the op's name; kHasAlpha tells whether it has the attribute "alpha". Values at kinks
// are PyTorch's. NaN goes through. `Math` supplies exp, expm1, log1p, tanh and erf, so that CPU
// kernels can bring vectorisable ones.

#include <cmath>
#include <string_view>

#include "core/host_device.h"

namespace tr {

/// Functions of the C++ library; any other policy has the same five.
struct StdMath {
  template <typename T>
  TR_HOST_DEVICE static T exp(T x) {
    return std::exp(x);
  }
  template <typename T>
  TR_HOST_DEVICE static T expm1(T x) {
    return std::expm1(x);
  }
  template <typename T>
  TR_HOST_DEVICE static T log1p(T x) {
    return std::log1p(x);
  }
  template <typename T>
  TR_HOST_DEVICE static T tanh(T x) {
    return std::tanh(x);
  }
  template <typename T>
  TR_HOST_DEVICE static T erf(T x) {
    return std::erf(x);
  }
};

namespace functors {

enum class Saved { X, Y };

/// max and min that pass a NaN of x on; one instruction each.
template <typename T>
TR_HOST_DEVICE inline T at_least(T low, T x) {
  return low > x ? low : x;
}
template <typename T>
TR_HOST_DEVICE inline T at_most(T high, T x) {
  return high < x ? high : x;
}

template <typename Math, typename T>
TR_HOST_DEVICE inline T sigmoid_of(T x) {
  return T(1) / (T(1) + Math::exp(-x));
}

/// log(1 + exp(x)) without overflow.
template <typename Math, typename T>
TR_HOST_DEVICE inline T softplus_of(T x) {
  return at_least(T(0), x) + Math::log1p(Math::exp(x > T(0) ? -x : x));
}

template <typename Math>
struct Relu {
  static constexpr std::string_view kName = "relu";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return at_least(T(0), x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return y <= T(0) ? T(0) : dy;
  }
};

template <typename Math>
struct Relu6 {
  static constexpr std::string_view kName = "relu6";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return at_most(T(6), at_least(T(0), x));
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return y <= T(0) || y >= T(6) ? T(0) : dy;
  }
};

template <typename Math>
struct LeakyRelu {
  static constexpr std::string_view kName = "leaky_relu";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = true;  // slope, >= 0
  float alpha;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x > T(0) ? x : T(alpha) * x;
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return y > T(0) ? dy : T(alpha) * dy;
  }
};

template <typename Math>
struct Elu {  // Clevert et al. 2015, arXiv:1511.07289
  static constexpr std::string_view kName = "elu";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = true;
  float alpha;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x > T(0) ? x : T(alpha) * Math::expm1(at_most(T(0), x));
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return y > T(0) ? dy : dy * (y + T(alpha));
  }
};

template <typename Math>
struct Celu {  // Barron 2017, arXiv:1704.07483
  static constexpr std::string_view kName = "celu";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = true;
  float alpha;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x > T(0) ? x : T(alpha) * Math::expm1(at_most(T(0), x) / T(alpha));
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return y > T(0) ? dy : dy * (y / T(alpha) + T(1));
  }
};

template <typename Math>
struct Selu {  // Klambauer et al. 2017, arXiv:1706.02515
  static constexpr std::string_view kName = "selu";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = false;
  static constexpr double kScale = 1.0507009873554804934193349852946;
  static constexpr double kScaledAlpha = kScale * 1.6732632423543772848170429916717;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x > T(0) ? T(kScale) * x : T(kScaledAlpha) * Math::expm1(at_most(T(0), x));
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return y > T(0) ? T(kScale) * dy : dy * (y + T(kScaledAlpha));
  }
};

template <typename Math>
struct Sigmoid {
  static constexpr std::string_view kName = "sigmoid";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return sigmoid_of<Math>(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return dy * y * (T(1) - y);
  }
};

template <typename Math>
struct LogSigmoid {
  static constexpr std::string_view kName = "log_sigmoid";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return -softplus_of<Math>(-x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return dy * sigmoid_of<Math>(-x);
  }
};

template <typename Math>
struct Tanh {
  static constexpr std::string_view kName = "tanh";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return Math::tanh(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return dy * (T(1) - y * y);
  }
};

template <typename Math>
struct Tanhshrink {
  static constexpr std::string_view kName = "tanhshrink";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x - Math::tanh(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    const T t = Math::tanh(x);
    return dy * t * t;
  }
};

template <typename Math>
struct Silu {  // Elfwing et al. 2017, arXiv:1702.03118
  static constexpr std::string_view kName = "silu";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x * sigmoid_of<Math>(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    const T s = sigmoid_of<Math>(x);
    return dy * (s * (T(1) + x * (T(1) - s)));
  }
};

template <typename Math>
struct Mish {  // Misra 2019, arXiv:1908.08681
  static constexpr std::string_view kName = "mish";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x * Math::tanh(softplus_of<Math>(x));
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    const T t = Math::tanh(softplus_of<Math>(x));
    return dy * (t + x * (T(1) - t * t) * sigmoid_of<Math>(x));
  }
};

template <typename Math>
struct Gelu {  // Hendrycks, Gimpel 2016, arXiv:1606.08415
  static constexpr std::string_view kName = "gelu";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = false;
  static constexpr double kSqrtHalf = 0.70710678118654752440;
  static constexpr double kInvSqrt2Pi = 0.39894228040143267794;
  template <typename T>
  TR_HOST_DEVICE static T cdf(T x) {
    return T(0.5) * (T(1) + Math::erf(x * T(kSqrtHalf)));
  }
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x * cdf(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return dy * (cdf(x) + x * T(kInvSqrt2Pi) * Math::exp(T(-0.5) * x * x));
  }
};

template <typename Math>
struct GeluTanh {
  static constexpr std::string_view kName = "gelu_tanh";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = false;
  static constexpr double kSqrt2OverPi = 0.79788456080286535588;
  static constexpr double kCubic = 0.044715;
  template <typename T>
  TR_HOST_DEVICE static T inner(T x) {
    return T(kSqrt2OverPi) * (x + T(kCubic) * x * x * x);
  }
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return T(0.5) * x * (T(1) + Math::tanh(inner(x)));
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    const T t = Math::tanh(inner(x));
    const T slope = T(kSqrt2OverPi) * (T(1) + T(3 * kCubic) * x * x);
    return dy * T(0.5) * (T(1) + t + x * (T(1) - t * t) * slope);
  }
};

template <typename Math>
struct Softplus {
  static constexpr std::string_view kName = "softplus";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = true;  // beta, > 0
  static constexpr double kLinearFrom = 20;
  float alpha;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    const T scaled = x * T(alpha);
    return scaled > T(kLinearFrom) ? x : softplus_of<Math>(scaled) / T(alpha);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    const T scaled = x * T(alpha);
    return scaled > T(kLinearFrom) ? dy : dy * sigmoid_of<Math>(scaled);
  }
};

template <typename Math>
struct Softsign {
  static constexpr std::string_view kName = "softsign";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x / (T(1) + std::abs(x));
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    const T d = T(1) + std::abs(x);
    return dy / (d * d);
  }
};

template <typename Math>
struct Hardtanh {
  static constexpr std::string_view kName = "hardtanh";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return at_most(T(1), at_least(T(-1), x));
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return y <= T(-1) || y >= T(1) ? T(0) : dy;
  }
};

template <typename Math>
struct Hardsigmoid {
  static constexpr std::string_view kName = "hardsigmoid";
  static constexpr Saved kSaves = Saved::X;  // y rounds to 1 just below x = 3
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return at_most(T(6), at_least(T(0), x + T(3))) / T(6);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return x <= T(-3) || x >= T(3) ? T(0) : dy / T(6);
  }
};

template <typename Math>
struct Hardswish {  // Howard et al. 2019, arXiv:1905.02244
  static constexpr std::string_view kName = "hardswish";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x * at_most(T(6), at_least(T(0), x + T(3))) / T(6);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return x <= T(-3) ? T(0) : x >= T(3) ? dy : dy * (x / T(3) + T(0.5));
  }
};

template <typename Math>
struct Hardshrink {
  static constexpr std::string_view kName = "hardshrink";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = true;  // lambda, >= 0
  float alpha;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x >= T(-alpha) && x <= T(alpha) ? T(0) : x;
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return y == T(0) ? T(0) : dy;
  }
};

template <typename Math>
struct Softshrink {
  static constexpr std::string_view kName = "softshrink";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = true;  // lambda, >= 0
  float alpha;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x > T(alpha) ? x - T(alpha) : x < T(-alpha) ? x + T(alpha) : x * T(0);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return y == T(0) ? T(0) : dy;
  }
};

template <typename Math>
struct Exp {
  static constexpr std::string_view kName = "exp";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return Math::exp(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T y, T dy) const {
    return dy * y;
  }
};

template <typename Math>
struct Abs {
  static constexpr std::string_view kName = "abs";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return std::abs(x);
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return x > T(0) ? dy : x < T(0) ? -dy : dy * T(0);
  }
};

template <typename Math>
struct Square {
  static constexpr std::string_view kName = "square";
  static constexpr Saved kSaves = Saved::X;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return x * x;
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T x, T dy) const {
    return T(2) * x * dy;
  }
};

template <typename Math>
struct Neg {
  static constexpr std::string_view kName = "neg";
  static constexpr Saved kSaves = Saved::Y;
  static constexpr bool kHasAlpha = false;
  template <typename T>
  TR_HOST_DEVICE T operator()(T x) const {
    return -x;
  }
  template <typename T>
  TR_HOST_DEVICE T grad(T, T dy) const {
    return -dy;
  }
};

template <typename... Functors>
struct List {};

/// The whole table. A backend registers each entry's forward and backward kernel from it.
template <typename Math>
using Table = List<Relu<Math>, Relu6<Math>, LeakyRelu<Math>, Elu<Math>, Celu<Math>, Selu<Math>,
                   Sigmoid<Math>, LogSigmoid<Math>, Tanh<Math>, Tanhshrink<Math>, Silu<Math>,
                   Mish<Math>, Gelu<Math>, GeluTanh<Math>, Softplus<Math>, Softsign<Math>,
                   Hardtanh<Math>, Hardsigmoid<Math>, Hardswish<Math>, Hardshrink<Math>,
                   Softshrink<Math>, Exp<Math>, Abs<Math>, Square<Math>, Neg<Math>>;

/// A functor with its attribute; `alpha` is ignored by those without one.
template <typename Functor>
constexpr Functor make(float alpha) {
  if constexpr (Functor::kHasAlpha) {
    return Functor{alpha};
  } else {
    return Functor{};
  }
}

template <typename... Functors, typename F>
void for_each(List<Functors...>, F&& f) {
  (f.template operator()<Functors>(), ...);
}

/// Calls f.template operator()<Functor>() for each entry of the table.
template <typename Math = StdMath, typename F>
void for_each(F&& f) {
  for_each(Table<Math>{}, f);
}

/// Calls f(functor) for the entry of that name; false if there is none.
template <typename Math = StdMath, typename F>
bool visit(std::string_view name, float alpha, F&& f) {
  bool found = false;
  for_each<Math>([&]<typename Functor>() {
    if (Functor::kName != name) return;
    f(make<Functor>(alpha));
    found = true;
  });
  return found;
}

}  // namespace functors
}  // namespace tr
