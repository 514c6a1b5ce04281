// SPDX-License-Identifier: Apache-2.0
#pragma once

// A byte of relu's mask: eight neighbours of 16 bits, bit i of element i set where relu lets it
// through.

#include "backend/cuda/scalar.cuh"

namespace tr::cuda {

/// Of elements that may be relu's results or its operands.
template <typename T>
__device__ std::uint32_t marks_of(const uint4& values) {
  const std::uint32_t words[4] = {values.x, values.y, values.z, values.w};
  std::uint32_t bits = 0;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const std::uint32_t kept = ~not_positive(words[w], T{});
    bits |= ((kept & 1) | (kept >> 30 & 2)) << (2 * w);
  }
  return bits;
}

/// All bits of each half of word `word` of the eight elements whose mark is set.
__device__ inline std::uint32_t kept_bits(std::uint32_t marks, int word) {
  const std::uint32_t two = marks >> (2 * word);
  return (two & 1) * 0xffffu | (two >> 1 & 1) * 0xffff0000u;
}

}  // namespace tr::cuda
