// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arithmetic of elementwise ops of two inputs, once for all devices and dtypes:
//
//   y  = f(a, b)
//   da = f.grad_a(a, b, dy),  db = f.grad_b(a, b, dy)
//
// Values at kinks are PyTorch's: of equal numbers, minimum and maximum give each half of the
// gradient. NaN goes through. Comparisons give 0 or 1 and have no gradient.

#include "backend/elementwise_functors.h"

namespace tr::functors {

struct Sub {
  static constexpr std::string_view kName = "sub";
  template <typename T>
  TR_HOST_DEVICE T operator()(T a, T b) const {
    return a - b;
  }
  template <typename T>
  TR_HOST_DEVICE T grad_a(T, T, T dy) const {
    return dy;
  }
  template <typename T>
  TR_HOST_DEVICE T grad_b(T, T, T dy) const {
    return -dy;
  }
};

struct Div {
  static constexpr std::string_view kName = "div";
  template <typename T>
  TR_HOST_DEVICE T operator()(T a, T b) const {
    return a / b;
  }
  template <typename T>
  TR_HOST_DEVICE T grad_a(T, T b, T dy) const {
    return dy / b;
  }
  template <typename T>
  TR_HOST_DEVICE T grad_b(T a, T b, T dy) const {
    return -dy * ((a / b) / b);
  }
};

struct Pow {
  static constexpr std::string_view kName = "pow";
  template <typename T>
  TR_HOST_DEVICE T operator()(T a, T b) const {
    return std::pow(a, b);
  }
  template <typename T>
  TR_HOST_DEVICE T grad_a(T a, T b, T dy) const {
    return b == T(0) ? dy * T(0) : dy * b * std::pow(a, b - T(1));
  }
  template <typename T>
  TR_HOST_DEVICE T grad_b(T a, T b, T dy) const {
    // 0^b does not change with b above 0.
    return a == T(0) && b >= T(0) ? dy * T(0) : dy * std::pow(a, b) * std::log(a);
  }
};

struct Minimum {
  static constexpr std::string_view kName = "minimum";
  template <typename T>
  TR_HOST_DEVICE T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
  template <typename T>
  TR_HOST_DEVICE T grad_a(T a, T b, T dy) const {
    return a < b ? dy : a == b ? dy / T(2) : T(0);
  }
  template <typename T>
  TR_HOST_DEVICE T grad_b(T a, T b, T dy) const {
    return grad_a(b, a, dy);
  }
};

struct Maximum {
  static constexpr std::string_view kName = "maximum";
  template <typename T>
  TR_HOST_DEVICE T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
  template <typename T>
  TR_HOST_DEVICE T grad_a(T a, T b, T dy) const {
    return a > b ? dy : a == b ? dy / T(2) : T(0);
  }
  template <typename T>
  TR_HOST_DEVICE T grad_b(T a, T b, T dy) const {
    return grad_a(b, a, dy);
  }
};

struct Prelu {  // He et al. 2015, arXiv:1502.01852; b is the slope below 0
  static constexpr std::string_view kName = "prelu";
  template <typename T>
  TR_HOST_DEVICE T operator()(T a, T b) const {
    return a > T(0) ? a : b * a;
  }
  template <typename T>
  TR_HOST_DEVICE T grad_a(T a, T b, T dy) const {
    return a > T(0) ? dy : b * dy;
  }
  template <typename T>
  TR_HOST_DEVICE T grad_b(T a, T, T dy) const {
    return a > T(0) ? T(0) : a * dy;
  }
};

using BinaryTable = List<Sub, Div, Pow, Minimum, Maximum, Prelu>;

/// Calls f.template operator()<Functor>() for each entry of the table.
template <typename F>
void for_each_binary(F&& f) {
  for_each(BinaryTable{}, f);
}

struct Equal {
  static constexpr std::string_view kName = "equal";
  template <typename T>
  TR_HOST_DEVICE bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  static constexpr std::string_view kName = "not_equal";
  template <typename T>
  TR_HOST_DEVICE bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  static constexpr std::string_view kName = "less";
  template <typename T>
  TR_HOST_DEVICE bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  static constexpr std::string_view kName = "less_equal";
  template <typename T>
  TR_HOST_DEVICE bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  static constexpr std::string_view kName = "greater";
  template <typename T>
  TR_HOST_DEVICE bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqual {
  static constexpr std::string_view kName = "greater_equal";
  template <typename T>
  TR_HOST_DEVICE bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct LogicalAnd {
  static constexpr std::string_view kName = "logical_and";
  template <typename T>
  TR_HOST_DEVICE bool operator()(T a, T b) const {
    return a != T(0) && b != T(0);
  }
};
struct LogicalOr {
  static constexpr std::string_view kName = "logical_or";
  template <typename T>
  TR_HOST_DEVICE bool operator()(T a, T b) const {
    return a != T(0) || b != T(0);
  }
};
struct LogicalXor {
  static constexpr std::string_view kName = "logical_xor";
  template <typename T>
  TR_HOST_DEVICE bool operator()(T a, T b) const {
    return (a != T(0)) != (b != T(0));
  }
};

using CompareTable = List<Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, LogicalAnd,
                          LogicalOr, LogicalXor>;

/// Calls f.template operator()<Functor>() for each comparison.
template <typename F>
void for_each_compare(F&& f) {
  for_each(CompareTable{}, f);
}

}  // namespace tr::functors
