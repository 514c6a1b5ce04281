// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/mirror.h"

#include <immintrin.h>

#include <cstring>

namespace tr::data {

namespace {

/// `kGroup` pixels at a time by one shuffle of 16 bytes; returns how many pixels are done.
template <int kChannels, int kGroup>
int mirror_groups(const std::uint8_t* src, int width, __m128i order, std::uint8_t* dst) {
  int done = 0;
  for (; done + kGroup <= width; done += kGroup) {
    const auto* at = reinterpret_cast<const __m128i*>(src + (width - done - kGroup) * kChannels);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + done * kChannels),
                     _mm_shuffle_epi8(_mm_loadu_si128(at), order));
  }
  return done;
}

}  // namespace

void mirror_row(const std::uint8_t* src, int width, int channels, std::uint8_t* dst) {
  int done = 0;
  if (channels == 1) {
    const __m128i order = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    done = mirror_groups<1, 16>(src, width, order, dst);
  } else if (channels == 3) {
    const __m128i order = _mm_setr_epi8(12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, -1);
    done = mirror_groups<3, 5>(src, width, order, dst);
  }
  for (int x = done; x < width; ++x) {
    std::memcpy(dst + x * channels, src + (width - 1 - x) * channels, std::size_t(channels));
  }
}

}  // namespace tr::data
