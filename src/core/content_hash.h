// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tr {

/// 64 bits that tell byte strings apart which were not made to deceive. Every step is a bijection,
/// so strings that differ in one aligned word always differ in it.
/// Not for files: it depends on the machine's byte order.
inline std::uint64_t content_hash(std::span<const std::byte> bytes, std::uint64_t seed = 0) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  const auto mixed = [](std::uint64_t h) {
    h = (h ^ h >> 32) * kOdd;
    return h ^ h >> 29;
  };
  std::array<std::uint64_t, 4> lanes{1, 2, 3, 4};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  const auto take = [&](std::size_t count) {
    std::array<std::uint64_t, 4> words{};
    std::memcpy(words.data(), at, count);
    for (std::size_t i = 0; i < 4; ++i) lanes[i] = mixed(lanes[i] ^ words[i]);
    at += count;
    left -= count;
  };
  while (left >= 32) take(32);
  if (left > 0) take(left);
  std::uint64_t hash = mixed(seed ^ bytes.size());
  for (const std::uint64_t lane : lanes) hash = mixed(hash ^ lane);
  return hash;
}

}  // namespace tr
