// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "core/half.h"

namespace tr::cpu {

// Rows of 16-bit storage are widened to fp32, computed on, and rounded once when they are stored.

inline void load_floats(const float* src, float* dst, std::int64_t n) {
  std::memcpy(dst, src, std::size_t(n) * sizeof(float));
}
inline void load_floats(const Half* src, float* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i));
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(bits));
  }
  for (; i < n; ++i) dst[i] = to_float(src[i]);
}
inline void load_floats(const BFloat16* src, float* dst, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) dst[i] = to_float(src[i]);
}

inline void store_floats(const float* src, float* dst, std::int64_t n) {
  std::memcpy(dst, src, std::size_t(n) * sizeof(float));
}
inline void store_floats(const float* src, Half* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), bits);
  }
  for (; i < n; ++i) dst[i] = from_float<Half>(src[i]);
}
/// from_float<BFloat16> of eight floats, in the low halves of the result.
inline __m256i bf16_words(const float* src) {
  const __m256 x = _mm256_loadu_ps(src);
  const __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i nearest = _mm256_srli_epi32(
      _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i quiet_nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(nearest, quiet_nan, is_nan);
}
inline void store_floats(const float* src, BFloat16* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i packed = _mm256_packus_epi32(bf16_words(src + i), bf16_words(src + i + 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i),
                        _mm256_permute4x64_epi64(packed, 0xd8));
  }
  for (; i < n; ++i) dst[i] = from_float<BFloat16>(src[i]);
}

/// Elements of a row that are widened at a time: they and their results stay in the L1 cache.
constexpr std::int64_t kRowBlock = 512;

/// `src` as fp32: itself, or a copy in `buffer` (kRowBlock floats; n <= kRowBlock).
inline const float* as_floats(const float* src, float*, std::int64_t) { return src; }
template <typename T>
const float* as_floats(const T* src, float* buffer, std::int64_t n) {
  load_floats(src, buffer, n);
  return buffer;
}

/// Where results for `dst` are computed: in place, or in `buffer` until put_floats() rounds them.
inline float* result_floats(float* dst, float*) { return dst; }
template <typename T>
float* result_floats(T*, float* buffer) {
  return buffer;
}
inline void put_floats(float*, const float*, std::int64_t) {}
template <typename T>
void put_floats(T* dst, const float* buffer, std::int64_t n) {
  store_floats(buffer, dst, n);
}

}  // namespace tr::cpu
