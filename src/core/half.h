// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "core/host_device.h"

namespace tr {

/// IEEE binary16 storage; arithmetic happens in float. Rounds to nearest even, overflows to infinity.
struct Half {
  std::uint16_t bits = 0;
};

/// bfloat16 storage: the upper half of a float. Rounds to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;
};

TR_HOST_DEVICE inline float to_float(float x) { return x; }

TR_HOST_DEVICE inline float to_float(BFloat16 x) {
  return std::bit_cast<float>(std::uint32_t(x.bits) << 16);
}

TR_HOST_DEVICE inline float to_float(Half x) {
  const std::uint32_t sign = std::uint32_t(x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = std::uint32_t(x.bits & 0x7fffu);
  if (magnitude >= 0x7c00u) {  // infinity, NaN (made quiet, as the hardware does)
    const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13) | quiet);
  }
  // Multiplying by 2^112 moves the exponent's bias; exact for subnormals too.
  const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000u);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

template <typename T>
TR_HOST_DEVICE inline T from_float(float x);

template <>
TR_HOST_DEVICE inline float from_float<float>(float x) {
  return x;
}

template <>
TR_HOST_DEVICE inline BFloat16 from_float<BFloat16>(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {std::uint16_t((u >> 16) | 0x40u)};  // quiet NaN
  return {std::uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

template <>
TR_HOST_DEVICE inline Half from_float<Half>(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const std::uint16_t sign = std::uint16_t((u >> 16) & 0x8000u);
  const std::uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN keeps its upper payload
    return {std::uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
  }
  if (magnitude >= 0x477ff000u) return {std::uint16_t(sign | 0x7c00u)};  // rounds to infinity
  if (magnitude < 0x38800000u) {  // subnormal or zero: adding 0.5 aligns the mantissa's last bit
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {std::uint16_t(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {std::uint16_t(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace tr
