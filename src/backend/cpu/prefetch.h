// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace tr::cpu {

/// Bytes that will be read soon: `rows` runs of `bytes`, `stride` apart. They are asked for in
/// parts between pieces of arithmetic, so that the reader does not wait for memory.
struct Prefetch {
  const std::byte* first = nullptr;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;

  /// Asks for part `index` of `count`.
  void part(std::int64_t index, std::int64_t count) const {
    constexpr std::int64_t kLine = 64;
    for (std::int64_t r = index * rows / count; r < (index + 1) * rows / count; ++r) {
      const std::byte* row = first + r * stride;
      for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at, 0, 2);
    }
  }
};

}  // namespace tr::cpu
