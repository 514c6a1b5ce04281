// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace tr::cuda {

/// Quotients of numbers below 2^31 by one number, by a multiplication: with 2^(b - 1) < divisor <=
/// 2^b and m = floor(2^(31 + b) / divisor) + 1, which has 32 bits, m n / 2^(31 + b) exceeds n /
/// divisor by less than 1 / divisor.
/// Source: Granlund, Montgomery 1994, Division by invariant integers using multiplication.
class Divisor {
 public:
  struct Split {
    std::uint32_t quotient, rest;
  };

  /// @param divisor  1 to 2^31 - 1
  explicit Divisor(std::int64_t divisor) : divisor_(std::uint32_t(divisor)) {
    while (std::int64_t{1} << bits_ < divisor) ++bits_;
    multiplier_ = std::uint32_t((std::uint64_t{1} << (31 + bits_)) / divisor_ + 1);
  }
  TR_HOST_DEVICE Split split(std::uint32_t n) const {
    const std::uint64_t product = std::uint64_t{n << 1} * multiplier_;
    const std::uint32_t quotient = std::uint32_t(product >> 32) >> bits_;
    return {quotient, n - quotient * divisor_};
  }

 private:
  std::uint32_t divisor_, multiplier_ = 0, bits_ = 0;
};

}  // namespace tr::cuda
