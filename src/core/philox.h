// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/host_device.h"

namespace tr {

/// What a draw is for. The number is part of every draw's address: never renumber (docs/determinism.md).
enum class DrawPurpose : std::uint32_t {
  INIT = 1,          // (parameter's name hash, element)
  SHUFFLE = 2,       // (epoch, split)
  AUGMENT = 3,       // (epoch, sample id, transform's index in the chain)
  DROPOUT = 4,       // (step, layer's name hash, sample in the global batch, element)
  PROCEDURAL = 5,    // (split, sample id)
  TEST = 6,          // free use by tests
  NOISE = 7,         // (epoch, sample id, transform's index in the chain, element)
  BATCH = 8,         // (epoch, first place of the batch in the epoch's order)
  SPLIT = 16,        // (hash of a picture's path): which pictures validation takes
  REPLACE = 17       // (split, sample id, try): which sample stands in for one that cannot be read
};

struct Philox4 {
  std::array<std::uint32_t, 4> v{};
};

/// One block of Philox4x32-10. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
TR_HOST_DEVICE inline Philox4 philox4x32_10(std::array<std::uint32_t, 4> counter,
                                            std::array<std::uint32_t, 2> key) {
  std::uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  std::uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t(0xD2511F53u) * c0;
    const std::uint64_t p1 = std::uint64_t(0xCD9E8D57u) * c2;
    const std::uint32_t n0 = std::uint32_t(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = std::uint32_t(p0 >> 32) ^ c3 ^ k1;
    c1 = std::uint32_t(p1);
    c3 = std::uint32_t(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Address of a stream of draws: the key is (seed's low word, seed's high word xor purpose * golden), the
/// counter (index, a low, a high xor b high rotated, b low). Frozen by golden draws in tests.
struct DrawAddress {
  std::uint64_t seed = 0;
  DrawPurpose purpose = DrawPurpose::TEST;
  std::uint64_t a = 0;  // epoch or step (with a layer's hash mixed in), see DrawPurpose
  std::uint64_t b = 0;  // sample id or element block

  /// Four words; `index` counts blocks of one address.
  TR_HOST_DEVICE Philox4 block(std::uint32_t index) const {
    const std::uint32_t b_high = std::uint32_t(b >> 32);
    return philox4x32_10(
        {index, std::uint32_t(a), std::uint32_t(a >> 32) ^ ((b_high << 16) | (b_high >> 16)),
         std::uint32_t(b)},
        {std::uint32_t(seed), std::uint32_t(seed >> 32) ^ (std::uint32_t(purpose) * 0x9E3779B9u)});
  }
};

/// Uniform in [0, 1): the upper 24 bits, exact in float.
TR_HOST_DEVICE inline float uniform01(std::uint32_t word) { return float(word >> 8) * 0x1p-24f; }

/// Integer in [0, bound), bound >= 1, by multiply-shift (bias below bound / 2^32).
TR_HOST_DEVICE inline std::uint32_t uniform_below(std::uint32_t word, std::uint32_t bound) {
  return std::uint32_t((std::uint64_t(word) * bound) >> 32);
}

}  // namespace tr
