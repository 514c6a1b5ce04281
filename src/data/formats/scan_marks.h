// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tr::data {

/// Where rows of MCUs begin in the entropy-coded data of a baseline JPEG. A decoder finds them as
/// it goes; the next decode of the same bytes goes straight to the rows of its crop.
struct ScanMarks {
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kComponents = 3;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 29;  // that an offset reaches

  std::uint64_t content = 0;  // content_hash() of the file they belong to
  std::uint16_t rows_per_mark = 0;
  std::uint16_t known = 0;  // of the marks: the first ones
  // Of mark i, where row (i + 1) * rows_per_mark begins: bytes from the scan's first one << 3 |
  // bits of that byte which are used; and the last block's DC value by component.
  std::array<std::uint32_t, kMost> offset_bits{};
  std::array<std::array<std::int16_t, kComponents>, kMost> dc{};
};

}  // namespace tr::data
