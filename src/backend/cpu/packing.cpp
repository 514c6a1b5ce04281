// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/packing.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>

namespace tr::cpu {
namespace {

/// dst[k * width + i] = src[i * ld + k] for an 8 x 8 block.
inline void transpose_8x8(const float* src, std::int64_t ld, std::int64_t width, float* dst) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(src + i * ld);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(dst + i * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(dst + (i + 4) * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

inline void transpose_4x4(const float* src, std::int64_t ld, std::int64_t width, float* dst) {
  __m128 r0 = _mm_loadu_ps(src), r1 = _mm_loadu_ps(src + ld);
  __m128 r2 = _mm_loadu_ps(src + 2 * ld), r3 = _mm_loadu_ps(src + 3 * ld);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(dst, r0);
  _mm_storeu_ps(dst + width, r1);
  _mm_storeu_ps(dst + 2 * width, r2);
  _mm_storeu_ps(dst + 3 * width, r3);
}

void zero_rest(std::int64_t count, std::int64_t num_k, std::int64_t width, float* dst) {
  if (count == width) return;
  for (std::int64_t k = 0; k < num_k; ++k) {
    std::fill(dst + k * width + count, dst + (k + 1) * width, 0.0f);
  }
}

/// Copies count >= 8 floats; the last eight may overlap those before. A call of memcpy costs more
/// than so short a row.
inline void copy_row(const float* src, std::int64_t count, float* dst) {
  for (std::int64_t i = 0; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(dst + i, _mm256_loadu_ps(src + i));
  }
  _mm256_storeu_ps(dst + count - 8, _mm256_loadu_ps(src + count - 8));
}

}  // namespace

void pack_transposed(const float* src, std::int64_t ld, std::int64_t count, std::int64_t num_k,
                     std::int64_t width, float* dst) {
  const std::int64_t whole_k = num_k / 8 * 8;
  // Eight rows at a time along k: rows that lie a multiple of 4096 bytes apart compete for one
  // place in the cache. Not too far along, so that what is written stays near (512 x 1024 floats,
  // panels of 32: 163 us with k outside, 48 us in runs of 64).
  constexpr std::int64_t kRun = 64;
  for (std::int64_t begin = 0; begin < whole_k; begin += kRun) {
    const std::int64_t end = std::min(begin + kRun, whole_k);
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
      for (std::int64_t k = begin; k < end; k += 8) {
        transpose_8x8(src + i * ld + k, ld, width, dst + k * width + i);
      }
    }
    for (; i + 4 <= count; i += 4) {
      for (std::int64_t k = begin; k < end; k += 4) {
        transpose_4x4(src + i * ld + k, ld, width, dst + k * width + i);
      }
    }
    for (; i < count; ++i) {
      for (std::int64_t k = begin; k < end; ++k) dst[k * width + i] = src[i * ld + k];
    }
  }
  for (std::int64_t k = whole_k; k < num_k; ++k) {
    for (std::int64_t i = 0; i < count; ++i) dst[k * width + i] = src[i * ld + k];
  }
  zero_rest(count, num_k, width, dst);
}

void pack_rows(const float* src, std::int64_t ld, std::int64_t count, std::int64_t num_k,
               std::int64_t width, float* dst) {
  if (count < 8) {
    for (std::int64_t k = 0; k < num_k; ++k) std::copy_n(src + k * ld, count, dst + k * width);
  } else {
    for (std::int64_t k = 0; k < num_k; ++k) copy_row(src + k * ld, count, dst + k * width);
  }
  zero_rest(count, num_k, width, dst);
}

void pack_transposed_pairs(const std::uint16_t* src, std::int64_t ld, std::int64_t count,
                           std::int64_t num_k, std::int64_t width, float* dst) {
  const bool words =
      ld % 2 == 0 && num_k % 2 == 0 && reinterpret_cast<std::uintptr_t>(src) % 4 == 0;
  if (words) {  // a pair lies side by side already
    pack_transposed(reinterpret_cast<const float*>(src), ld / 2, count, num_k / 2, width, dst);
    return;
  }
  for (std::int64_t k = 0; k < num_k; k += 2) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t low = src[i * ld + k];
      const std::uint32_t high = k + 1 < num_k ? src[i * ld + k + 1] : 0u;
      dst[k / 2 * width + i] = std::bit_cast<float>(low | (high << 16));
    }
  }
  zero_rest(count, (num_k + 1) / 2, width, dst);
}

void pack_rows_pairs(const std::uint16_t* src, std::int64_t ld, std::int64_t count,
                     std::int64_t num_k, std::int64_t width, float* dst) {
  for (std::int64_t k = 0; k < num_k; k += 2) {
    const std::uint16_t* low = src + k * ld;
    const std::uint16_t* high = k + 1 < num_k ? low + ld : nullptr;
    float* words = dst + k / 2 * width;
    if (high == nullptr) {
      for (std::int64_t i = 0; i < count; ++i)
        words[i] = std::bit_cast<float>(std::uint32_t(low[i]));
      continue;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      words[i] = std::bit_cast<float>(std::uint32_t(low[i]) | (std::uint32_t(high[i]) << 16));
    }
  }
  zero_rest(count, (num_k + 1) / 2, width, dst);
}

}  // namespace tr::cpu
