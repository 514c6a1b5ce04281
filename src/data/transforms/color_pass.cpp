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

/// Pixels of a tile by channel, 32 bits each: products with factors fit.
struct Tile {
  alignas(32) std::int32_t channel[3][kTile];
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

/// One of three results, each gathered from all three vectors.
__m128i gathered(const __m128i (&from)[3], const std::int8_t (&order)[3][16]) {
  return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(from[0], load(order[0])),
                                   _mm_shuffle_epi8(from[1], load(order[1]))),
                      _mm_shuffle_epi8(from[2], load(order[2])));
}

/// 48 bytes: 16 pixels to three runs of 16, and back.
void split_rgb(const std::uint8_t* src, std::uint8_t* (&runs)[3]) {
  const __m128i from[3] = {load(src), load(src + 16), load(src + 32)};
  for (int c = 0; c < 3; ++c) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(runs[c]), gathered(from, kOrder.split[c]));
  }
}
void merge_rgb(const std::uint8_t* const (&runs)[3], std::uint8_t* dst) {
  const __m128i from[3] = {load(runs[0]), load(runs[1]), load(runs[2])};
  for (int v = 0; v < 3; ++v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + 16 * v), gathered(from, kOrder.merge[v]));
  }
}

void load_tile(const std::uint8_t* src, int channels, Tile& tile) {
  alignas(32) std::uint8_t run[3][kTile];
  if (channels == 3) {
    for (int x = 0; x < kTile; x += 16) {
      std::uint8_t* runs[3] = {run[0] + x, run[1] + x, run[2] + x};
      split_rgb(src + 3 * x, runs);
    }
  } else {
    std::memcpy(run[0], src, kTile);
  }
  for (int c = 0; c < channels; ++c) {
    for (int i = 0; i < kTile; ++i) tile.channel[c][i] = run[c][i];
  }
}

void store_tile(const Tile& tile, int channels, std::uint8_t* dst) {
  alignas(32) std::uint8_t run[3][kTile];
  for (int c = 0; c < channels; ++c) {
    for (int i = 0; i < kTile; ++i) run[c][i] = std::uint8_t(tile.channel[c][i]);
  }
  if (channels == 1) {
    std::memcpy(dst, run[0], kTile);
    return;
  }
  for (int x = 0; x < kTile; x += 16) {
    const std::uint8_t* const runs[3] = {run[0] + x, run[1] + x, run[2] + x};
    merge_rgb(runs, dst + 3 * x);
  }
}

void saturate(Tile& tile, std::int32_t factor) {
  auto& [r, g, b] = tile.channel;
  for (int i = 0; i < kTile; ++i) {
    const std::int32_t rest = (pixel::kFactorOne - factor) * pixel::luma(r[i], g[i], b[i]);
    r[i] = pixel::blend_factor(r[i], factor, rest);
    g[i] = pixel::blend_factor(g[i], factor, rest);
    b[i] = pixel::blend_factor(b[i], factor, rest);
  }
}

void turn(Tile& tile, std::int32_t factor) {
  auto& [r, g, b] = tile.channel;
  for (int i = 0; i < kTile; ++i) {
    const pixel::Rgb turned = pixel::turn_hue({r[i], g[i], b[i]}, factor);
    r[i] = turned.r;
    g[i] = turned.g;
    b[i] = turned.b;
  }
}

void apply_step(const ColorStep& step, std::int32_t rest, int channels, Tile& tile) {
  switch (step.op) {
    case ColorOp::BRIGHTNESS:
      for (int c = 0; c < channels; ++c) {
        for (std::int32_t& x : tile.channel[c]) x = pixel::brighten(x, step.factor);
      }
      break;
    case ColorOp::CONTRAST:
      for (int c = 0; c < channels; ++c) {
        for (std::int32_t& x : tile.channel[c]) x = pixel::blend_factor(x, step.factor, rest);
      }
      break;
    case ColorOp::SATURATION: saturate(tile, step.factor); break;
    case ColorOp::HUE: turn(tile, step.factor); break;
  }
}

/// Sum of the luma of the first `count` pixels.
std::int64_t luma_sum(const Tile& tile, int channels, int count) {
  const auto& [r, g, b] = tile.channel;
  std::int32_t sum = 0;
  if (channels == 1) {
    for (int i = 0; i < count; ++i) sum += r[i];
  } else if (count == kTile) {
    for (int i = 0; i < kTile; ++i) sum += pixel::luma(r[i], g[i], b[i]);
  } else {
    for (int i = 0; i < count; ++i) sum += pixel::luma(r[i], g[i], b[i]);
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
    auto& [r, g, b] = tile.channel;
    for (int i = 0; i < kTile; ++i) r[i] = g[i] = b[i] = pixel::luma(r[i], g[i], b[i]);
  });
}

}  // namespace tr::data
