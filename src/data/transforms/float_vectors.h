// SPDX-License-Identifier: Apache-2.0
#pragma once

// Eight floats to and from the types of batches, rounded as from_float() rounds finite numbers.

#include <immintrin.h>

#include "core/half.h"

namespace tr::data {

inline __m256 load_floats(const float* x) { return _mm256_loadu_ps(x); }
inline __m256 load_floats(const Half* x) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
inline __m256 load_floats(const BFloat16* x) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

inline void store_floats(__m256 y, float* x) { _mm256_storeu_ps(x, y); }
inline void store_floats(__m256 y, Half* x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(x), _mm256_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT));
}
inline void store_floats(__m256 y, BFloat16* x) {
  const __m256i u = _mm256_castps_si256(y);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(x),
      _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1)));
}

}  // namespace tr::data
