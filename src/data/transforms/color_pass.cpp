// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/color_pass.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "core/check.h"

namespace tr::data {
namespace {

using pixel::ColorOp;

constexpr int kTile = 32;  // pixels at once: fixed, so that the loops are whole vectors

/// Pixels of a tile by channel, 16 bits each: vectors of 16.
struct Tile {
  alignas(32) std::int16_t channel[3][kTile];
};

/// Which bytes of the three vectors of 16 RGB pixels go to byte i of a channel, -1 elsewhere.
struct SplitOrder {
  alignas(16) std::int8_t split[3][3][16];  // [channel][vector]
  alignas(16) std::int8_t merge[3][3][16];  // [vector][channel]

  constexpr SplitOrder() : split(), merge() {
    for (int a = 0; a < 3; ++a) {
      for (int b = 0; b < 3; ++b) {
        for (int i = 0; i < 16; ++i) {
          const int from = 3 * i + a - 16 * b;
          split[a][b][i] = std::int8_t(from >= 0 && from < 16 ? from : -1);
          const int at = 16 * a + i;
          merge[a][b][i] = std::int8_t(at % 3 == b ? at / 3 : -1);
        }
      }
    }
  }
};
constexpr SplitOrder kOrder;

__m128i load(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }

constexpr int kWords = 16;  // of a vector
__m256i words(const std::int16_t* at) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
}
void store_words(std::int16_t* at, __m256i x) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(at), x);
}
__m256i cut_words(__m256i x) {
  const __m256i most = _mm256_set1_epi16(255);
  return _mm256_max_epi16(_mm256_min_epi16(x, most), _mm256_setzero_si256());
}

/// A factor as whole + fraction / 2^16, the fraction a signed word: products by words, exactly.
struct WordFactor {
  __m256i whole, fraction;

  explicit WordFactor(std::int32_t factor)
      : whole(_mm256_set1_epi16(std::int16_t((factor + 0x8000) >> 16))),
        fraction(_mm256_set1_epi16(std::int16_t(factor & 0xffff))) {}
  /// floor(x factor / 2^16), for |x| <= 255.
  __m256i times(__m256i x) const {
    return _mm256_add_epi16(_mm256_mullo_epi16(x, whole), _mm256_mulhi_epi16(x, fraction));
  }
};

/// One of three results, each gathered from all three vectors.
__m128i gathered(const __m128i (&from)[3], const std::int8_t (&order)[3][16]) {
  return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(from[0], load(order[0])),
                                   _mm_shuffle_epi8(from[1], load(order[1]))),
                      _mm_shuffle_epi8(from[2], load(order[2])));
}

void load_tile(const std::uint8_t* src, int channels, Tile& tile) {
  for (int x = 0; x < kTile; x += kWords, src += kWords * channels) {
    if (channels == 1) {
      store_words(tile.channel[0] + x, _mm256_cvtepu8_epi16(load(src)));
      continue;
    }
    const __m128i from[3] = {load(src), load(src + 16), load(src + 32)};
    for (int c = 0; c < 3; ++c) {
      const __m128i run = gathered(from, kOrder.split[c]);
      store_words(tile.channel[c] + x, _mm256_cvtepu8_epi16(run));
    }
  }
}

__m128i bytes_of(const std::int16_t* at) {
  return _mm_packus_epi16(load(at), load(at + kWords / 2));
}

void store_tile(const Tile& tile, int channels, std::uint8_t* dst) {
  for (int x = 0; x < kTile; x += kWords) {
    auto* to = reinterpret_cast<__m128i*>(dst + x * channels);
    const __m128i first = bytes_of(tile.channel[0] + x);
    if (channels == 1) {
      _mm_storeu_si128(to, first);
      continue;
    }
    const __m128i from[3] = {first, bytes_of(tile.channel[1] + x), bytes_of(tile.channel[2] + x)};
    for (int v = 0; v < 3; ++v) _mm_storeu_si128(to + v, gathered(from, kOrder.merge[v]));
  }
}

/// pixel::brighten() and, with a rest, pixel::blend_factor() of a channel.
void blend_channel(std::int16_t (&channel)[kTile], std::int32_t factor, std::int32_t rest) {
  const WordFactor times(factor);
  const __m256i whole = _mm256_set1_epi16(std::int16_t(rest >> 16));
  // Of x fraction + rest's lower half the carry into the upper half, unsigned words compared.
  const __m256i sign = _mm256_set1_epi16(-0x8000);
  const __m256i low = _mm256_set1_epi16(std::int16_t(rest & 0xffff));
  const __m256i low_signed = _mm256_xor_si256(low, sign);
  for (int i = 0; i < kTile; i += kWords) {
    const __m256i x = words(channel + i);
    const __m256i sum = _mm256_add_epi16(_mm256_mullo_epi16(x, times.fraction), low);
    const __m256i carry = _mm256_cmpgt_epi16(low_signed, _mm256_xor_si256(sum, sign));
    const __m256i y = _mm256_add_epi16(times.times(x), whole);
    store_words(channel + i, cut_words(_mm256_sub_epi16(y, carry)));
  }
}

/// pixel::luma() of 16 pixels: the weights' upper and lower halves, the lower ones signed.
__m256i luma_words(__m256i r, __m256i g, __m256i b) {
  const auto upper = [](std::int32_t weight) {
    return _mm256_set1_epi16(std::int16_t((weight + 0x8000) >> 16));
  };
  const auto lower = [](std::int32_t first, std::int32_t second) {
    return _mm256_set1_epi32(std::int32_t(std::uint32_t(second & 0xffff) << 16) | (first & 0xffff));
  };
  const __m256i red_green = lower(pixel::kLumaRed, pixel::kLumaGreen),
                blue = lower(pixel::kLumaBlue, 0);
  const __m256i zero = _mm256_setzero_si256();
  const auto lower_sum = [&](__m256i two, __m256i third) {
    return _mm256_srai_epi32(
        _mm256_add_epi32(_mm256_madd_epi16(two, red_green), _mm256_madd_epi16(third, blue)), 16);
  };
  // Both kinds of packing work by halves of 128 bits, as the unpacking did.
  const __m256i low =
      _mm256_packs_epi32(lower_sum(_mm256_unpacklo_epi16(r, g), _mm256_unpacklo_epi16(b, zero)),
                         lower_sum(_mm256_unpackhi_epi16(r, g), _mm256_unpackhi_epi16(b, zero)));
  const __m256i high =
      _mm256_add_epi16(_mm256_add_epi16(_mm256_mullo_epi16(r, upper(pixel::kLumaRed)),
                                        _mm256_mullo_epi16(g, upper(pixel::kLumaGreen))),
                       _mm256_mullo_epi16(b, upper(pixel::kLumaBlue)));
  return _mm256_srli_epi16(_mm256_add_epi16(low, high), pixel::kLumaBits - 16);
}
__m256i luma_words(const Tile& tile, int i) {
  const auto& [r, g, b] = tile.channel;
  return luma_words(words(r + i), words(g + i), words(b + i));
}

/// factor x + (1 - factor) luma = luma + factor (x - luma), of which nothing is rounded but the
/// end.
void saturate(Tile& tile, std::int32_t factor) {
  const WordFactor times(factor);
  for (int i = 0; i < kTile; i += kWords) {
    const __m256i luma = luma_words(tile, i);
    for (auto& channel : tile.channel) {
      const __m256i apart = _mm256_sub_epi16(words(channel + i), luma);
      store_words(channel + i, cut_words(_mm256_add_epi16(luma, times.times(apart))));
    }
  }
}

void turn(Tile& tile, std::int32_t factor) {
  auto& [r, g, b] = tile.channel;
  for (int i = 0; i < kTile; ++i) {
    const pixel::Rgb turned = pixel::turn_hue({r[i], g[i], b[i]}, factor);
    r[i] = std::int16_t(turned.r);
    g[i] = std::int16_t(turned.g);
    b[i] = std::int16_t(turned.b);
  }
}

void apply_step(const ColorStep& step, std::int32_t rest, int channels, Tile& tile) {
  switch (step.op) {
    case ColorOp::BRIGHTNESS:
      for (int c = 0; c < channels; ++c) blend_channel(tile.channel[c], step.factor, 0);
      break;
    case ColorOp::CONTRAST:
      for (int c = 0; c < channels; ++c) blend_channel(tile.channel[c], step.factor, rest);
      break;
    case ColorOp::SATURATION: saturate(tile, step.factor); break;
    case ColorOp::HUE: turn(tile, step.factor); break;
  }
}

/// Sum of the luma of the first `count` pixels.
std::int64_t luma_sum(const Tile& tile, int channels, int count) {
  alignas(32) std::int16_t luma[kTile];
  for (int i = 0; i < kTile; i += kWords) {
    store_words(luma + i, channels == 1 ? words(tile.channel[0] + i) : luma_words(tile, i));
  }
  std::int32_t sum = 0;
  if (count == kTile) {  // a loop of fixed length is whole vectors
    for (int i = 0; i < kTile; ++i) sum += luma[i];
  } else {
    for (int i = 0; i < count; ++i) sum += luma[i];
  }
  return sum;
}

/// Calls visit(tile, count) with every tile of the image and, if `dst` is there, writes what it
/// made of it.
template <typename Visit>
void for_each_tile(const ImageRef& src, std::uint8_t* dst, const Visit& visit) {
  const int channels = src.shape.channels;
  const bool packed = src.stride == src.shape.row_bytes();
  const std::int64_t rows = packed ? 1 : src.shape.height;
  const std::int64_t width = std::int64_t(src.shape.width) * (packed ? src.shape.height : 1);
  Tile tile;
  for (std::int64_t y = 0; y < rows; ++y) {
    const std::uint8_t* line = src.row(int(y));
    for (std::int64_t x = 0; x < width; x += kTile, line += kTile * channels) {
      const int count = int(std::min<std::int64_t>(kTile, width - x));
      const std::size_t bytes = std::size_t(count * channels);
      std::uint8_t rest[3 * kTile] = {};
      if (count < kTile) std::memcpy(rest, line, bytes);
      load_tile(count < kTile ? rest : line, channels, tile);
      visit(tile, count);
      if (dst == nullptr) continue;
      if (count == kTile) {
        store_tile(tile, channels, dst);
      } else {
        store_tile(tile, channels, rest);
        std::memcpy(dst, rest, bytes);
      }
      dst += bytes;
    }
  }
}

void copy_packed(const ImageRef& src, std::uint8_t* dst) {
  if (src.pixels == dst) return;
  for (int y = 0; y < src.shape.height; ++y) {
    std::memcpy(dst + std::size_t(y) * src.shape.row_bytes(), src.row(y), src.shape.row_bytes());
  }
}

}  // namespace

void check_colors(const std::string& who, ImageShape in) {
  TR_CHECK(in.channels == 1 || in.channels == 3, "{}: the images have {} channels, expected 1 or 3",
           who, in.channels);
}

void apply_colors(const ImageRef& src, std::span<const ColorStep> steps, std::uint8_t* dst) {
  const int channels = src.shape.channels;
  ColorStep active[8];
  std::size_t count = 0, contrast = 8;
  for (const ColorStep& step : steps) {
    const bool colorless = step.op == ColorOp::BRIGHTNESS || step.op == ColorOp::CONTRAST;
    if (step.factor == (step.op == ColorOp::HUE ? 0 : pixel::kFactorOne)) continue;
    if (channels == 1 && !colorless) continue;
    if (step.op == ColorOp::CONTRAST) contrast = count;
    active[count++] = step;
  }
  if (count == 0) return copy_packed(src, dst);
  std::int32_t rest = 0;
  std::size_t first = 0;
  ImageRef now = src;
  if (contrast < count) {
    std::int64_t sum = 0;
    for_each_tile(now, contrast > 0 ? dst : nullptr, [&](Tile& tile, int pixels) {
      for (std::size_t i = 0; i < contrast; ++i) apply_step(active[i], 0, channels, tile);
      sum += luma_sum(tile, channels, pixels);
    });
    rest = pixel::mean_rest(active[contrast].factor, sum,
                            std::int64_t(src.shape.height) * src.shape.width);
    if (contrast > 0) now = ImageRef(dst, src.shape);
    first = contrast;
  }
  for_each_tile(now, dst, [&](Tile& tile, int) {
    for (std::size_t i = first; i < count; ++i) apply_step(active[i], rest, channels, tile);
  });
}

void apply_luma(const ImageRef& src, std::uint8_t* dst) {
  if (src.shape.channels == 1) return copy_packed(src, dst);
  for_each_tile(src, dst, [&](Tile& tile, int) {
    for (int i = 0; i < kTile; i += kWords) {
      const __m256i luma = luma_words(tile, i);
      for (auto& channel : tile.channel) store_words(channel + i, luma);
    }
  });
}

}  // namespace tr::data
