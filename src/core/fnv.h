// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace tr {

/// 64-bit FNV-1a. Names enter draw addresses through it, so it is frozen (docs/determinism.md).
/// Source: Fowler, Noll, Vo; http://www.isthe.com/chongo/tech/comp/fnv/
constexpr std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash ^= std::uint8_t(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace tr
