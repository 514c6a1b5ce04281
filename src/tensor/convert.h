// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/half.h"

namespace tr {

template <typename T>
inline constexpr bool kIsSixteenBitFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// One element from one storage type to another.
///   to a float type: nearest, ties to even; 16-bit types by way of float, as in PyTorch
///   float to integer: truncated towards zero, clamped to the range, NaN becomes 0
///   integer to narrower integer: clamped to the range
///   to bool: whether it is not zero; NaN is true
template <typename To, typename From>
To convert_element(From x) {
  if constexpr (kIsSixteenBitFloat<From>) {
    return convert_element<To>(to_float(x));
  } else if constexpr (kIsSixteenBitFloat<To>) {
    return from_float<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<To> || std::is_same_v<From, bool>) {
    return static_cast<To>(x);
  } else if constexpr (std::is_floating_point_v<From>) {
    // The powers of two that bound the range are exact in float and in double.
    const From bound = std::ldexp(From(1), std::numeric_limits<To>::digits);
    if (x != x) return To(0);
    if (x >= bound) return std::numeric_limits<To>::max();
    if (x <= (std::is_signed_v<To> ? -bound : From(0))) return std::numeric_limits<To>::min();
    return static_cast<To>(x);
  } else {
    const auto wide = std::int64_t(x);
    if (wide > std::int64_t(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    if (wide < std::int64_t(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(wide);
  }
}

/// The element's value; exact except for INT64 beyond 2^53.
template <typename From>
double element_value(From x) {
  if constexpr (kIsSixteenBitFloat<From>) {
    return double(to_float(x));
  } else {
    return double(x);
  }
}

/// `value` rounded to the storage type; to 16-bit floats by way of float.
template <typename To>
To element_from_value(double value) {
  return convert_element<To>(value);
}

}  // namespace tr
