// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/host_device.h"
#include "core/philox.h"

namespace tr {

/// A bijection of [0, size) that gives any element in O(1) without a table: a Feistel network over
/// the smallest grid of rows x columns that holds `size` cells (both near its square root), whose
/// halves move by keyed hashes; an image outside [0, size) goes through the network again (cycle
/// walking, in less than 1 of sqrt(size) cases). The arithmetic is integer only: the same on every
/// device. Source: Black, Rogaway 2002, "Ciphers with arbitrary finite domains" (generalised
/// Feistel).
struct Permutation {
  static constexpr int kRounds = 8;

  std::uint64_t size = 1;
  std::uint32_t rows = 1, columns = 1;
  std::array<std::uint32_t, kRounds> keys{};

  TR_HOST_DEVICE static std::uint32_t hash(std::uint32_t x) {  // the finaliser of MurmurHash3
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    return x ^ (x >> 16);
  }

  /// `value` moved by a keyed hash of `other`, modulo `bound`.
  TR_HOST_DEVICE static std::uint32_t shifted(std::uint32_t value, std::uint32_t other,
                                              std::uint32_t key, std::uint32_t bound) {
    const std::uint64_t sum = std::uint64_t(value) + uniform_below(hash(other ^ key), bound);
    return std::uint32_t(sum < bound ? sum : sum - bound);
  }

  /// Image of `index`; index < size.
  TR_HOST_DEVICE std::uint64_t operator()(std::uint64_t index) const {
    do {
      std::uint32_t row = std::uint32_t(index / columns);
      std::uint32_t column = std::uint32_t(index % columns);
      for (int round = 0; round < kRounds; round += 2) {
        row = shifted(row, column, keys[round], rows);
        column = shifted(column, row, keys[round + 1], columns);
      }
      index = std::uint64_t(row) * columns + column;
    } while (index >= size);
    return index;
  }
};

/// The order of one epoch: keys are blocks 0 and 1 of (seed, SHUFFLE, epoch, split).
/// `size` in 1 .. 2^62.
inline Permutation make_permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch,
                                    std::uint64_t split) {
  Permutation p;
  p.size = size;
  std::uint64_t rows = 1;  // ceil(sqrt(size)), by bisection: exact for every size
  for (std::uint64_t low = 1, high = std::uint64_t(1) << 31; low <= high;) {
    rows = low + (high - low) / 2;
    if (rows * rows >= size) {
      if ((rows - 1) * (rows - 1) < size) break;
      high = rows - 1;
    } else {
      low = rows + 1;
    }
  }
  p.rows = std::uint32_t(rows);
  p.columns = std::uint32_t((size + rows - 1) / rows);
  const DrawAddress address{seed, DrawPurpose::SHUFFLE, epoch, split};
  for (std::uint32_t block = 0; block < Permutation::kRounds / 4; ++block) {
    const Philox4 words = address.block(block);
    for (int i = 0; i < 4; ++i) p.keys[4 * block + std::uint32_t(i)] = words.v[std::size_t(i)];
  }
  return p;
}

}  // namespace tr
