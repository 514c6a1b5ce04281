// SPDX-License-Identifier: Apache-2.0
#pragma once

// The rectifier on pairs of 16 bits, and a byte of its mask: eight neighbours, bit i of element i
// set where relu lets it through.

#include "backend/cuda/scalar.cuh"

namespace tr::cuda {

/// Both rounded, `low` in the low half.
__device__ inline std::uint32_t rounded_pair(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}
__device__ inline std::uint32_t rounded_pair(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

/// The two marks of a pair whose elements that relu lets through have all their bits in `kept`.
__device__ inline std::uint32_t marks_of_pair(std::uint32_t kept) {
  return (kept & 1) | (kept >> 30 & 2);
}

/// Of elements that may be relu's results or its operands.
template <typename T>
__device__ std::uint32_t marks_of(const uint4& values) {
  const std::uint32_t words[4] = {values.x, values.y, values.z, values.w};
  std::uint32_t bits = 0;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    bits |= marks_of_pair(~not_positive(words[w], T{})) << (2 * w);
  }
  return bits;
}

/// All bits of each half of word `word` of the eight elements whose mark is set.
__device__ inline std::uint32_t kept_bits(std::uint32_t marks, int word) {
  const std::uint32_t two = marks >> (2 * word);
  return (two & 1) * 0xffffu | (two >> 1 & 1) * 0xffff0000u;
}

}  // namespace tr::cuda
