// SPDX-License-Identifier: Apache-2.0
#pragma once

// The blends of core/pixel/bilinear.h for vectors of AVX2, which every processor that the library
// runs on has: the same integers, in 16 bits where they fit.

#include <immintrin.h>

#include <cstdint>

#include "core/pixel/bilinear.h"

namespace tr::data {

/// Weights of a blend in the two halves of each 32-bit lane: 256 - f below, f (0..255) above.
inline __m256i weight_pairs(__m256i fractions) {
  const __m256i rest = _mm256_sub_epi32(_mm256_set1_epi32(1 << pixel::kWeightBits), fractions);
  return _mm256_or_si256(rest, _mm256_slli_epi32(fractions, 16));
}

/// blend_column() of eight pairs in 32-bit lanes, each the result of a blend_row() less 32768.
inline __m256i blend_columns(__m256i pairs, __m256i weights) {
  // The bias comes back 256 times: the weights of a pair sum up to 256.
  constexpr std::int32_t kRound = 1 << (2 * pixel::kWeightBits - 1);
  const __m256i bias = _mm256_set1_epi32((32768 << pixel::kWeightBits) + kRound);
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_madd_epi16(pairs, weights), bias),
                           2 * pixel::kWeightBits);
}

/// blend_quad() of eight quads. `fractions`: fx below, fy above in each lane.
inline __m256i blend_quads(__m256i quads, __m256i fractions) {
  const __m256i low = _mm256_set1_epi32(0xffff), bias = _mm256_set1_epi32(32768);
  const __m256i across = weight_pairs(_mm256_and_si256(fractions, low));
  const __m256i down = weight_pairs(_mm256_srli_epi32(fractions, 16));
  const __m256i zero = _mm256_setzero_si256();
  // Upper and lower pair of each quad; four quads of each half of the register in a vector.
  const __m256i first =
      _mm256_madd_epi16(_mm256_unpacklo_epi8(quads, zero), _mm256_unpacklo_epi32(across, across));
  const __m256i second =
      _mm256_madd_epi16(_mm256_unpackhi_epi8(quads, zero), _mm256_unpackhi_epi32(across, across));
  const __m256i pairs =
      _mm256_packs_epi32(_mm256_sub_epi32(first, bias), _mm256_sub_epi32(second, bias));
  return blend_columns(pairs, down);
}

/// 32 lanes of 32 bits, in order, as bytes.
inline __m256i pack_bytes(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i mixed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
  return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

}  // namespace tr::data
