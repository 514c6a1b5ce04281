// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace tr::data {

/// memcpy() of a row of pixels; short ones, of which small pictures consist, without a call.
inline void copy_row(std::uint8_t* dst, const std::uint8_t* src, std::size_t bytes) {
  struct Block {
    std::uint8_t bytes[16];
  };
  if (bytes < sizeof(Block) || bytes > 2 * sizeof(Block)) {
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return;
  }
  Block first, last;  // they overlap in the middle
  std::memcpy(&first, src, sizeof first);
  std::memcpy(&last, src + bytes - sizeof last, sizeof last);
  std::memcpy(dst, &first, sizeof first);
  std::memcpy(dst + bytes - sizeof last, &last, sizeof last);
}

}  // namespace tr::data
