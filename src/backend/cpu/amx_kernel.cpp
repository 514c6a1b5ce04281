// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/amx_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backend/cpu/packing.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileRowBytes = 64;

// The instructions are written out: g++ binds intrinsics to a target of the whole function, and has
// no type for a tile. T is the tile's number.
struct AmxTiles {
  template <int T>
  void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  void load(const float* from, std::int64_t stride_bytes) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride_bytes), "i"(T)
                     : "memory");
  }
  template <int T>
  void store(float* to, std::int64_t stride_bytes) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride_bytes), "i"(T)
                     : "memory");
  }
  template <int C, int A, int B>
  void add_product() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

/// tdpbf16ps as the manual gives it, denormals aside.
struct EmulatedTiles {
  float tiles[8][kTileRows][kTileRows];

  template <int T>
  void zero() {
    std::memset(tiles[T], 0, sizeof(tiles[T]));
  }
  template <int T>
  void load(const float* from, std::int64_t stride_bytes) {
    for (int r = 0; r < kTileRows; ++r) {
      std::memcpy(tiles[T][r], from + r * stride_bytes / std::int64_t(sizeof(float)),
                  kTileRowBytes);
    }
  }
  template <int T>
  void store(float* to, std::int64_t stride_bytes) {
    for (int r = 0; r < kTileRows; ++r) {
      std::memcpy(to + r * stride_bytes / std::int64_t(sizeof(float)), tiles[T][r], kTileRowBytes);
    }
  }
  template <int C, int A, int B>
  void add_product() {
    const auto low = [](float pair) {
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(pair) << 16);
    };
    const auto high = [](float pair) {
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(pair) & 0xffff0000u);
    };
    for (int m = 0; m < kTileRows; ++m) {
      for (int n = 0; n < kTileRows; ++n) {
        float even = 0, odd = 0;
        for (int k = 0; k < kAmxWords; ++k) {
          even = std::fma(low(tiles[A][m][k]), low(tiles[B][k][n]), even);
          odd = std::fma(high(tiles[A][m][k]), high(tiles[B][k][n]), odd);
        }
        tiles[C][m][n] += even + odd;
      }
    }
  }
};

/// Sums of the 32 x 32 block: tiles 0 and 1 above, 2 and 3 below; 4 and 5 hold rows, 6 and 7
/// columns.
template <typename Tiles>
void multiply_tiles(const MicroCall& call) {
  constexpr std::int64_t kPanelBytes = kMicroColumns * sizeof(float);
  constexpr std::int64_t kBlock = kTileRows * kMicroColumns;  // floats of half a block of sums
  Tiles tiles;
  if (call.sum != nullptr) {
    tiles.template load<0>(call.sum, kPanelBytes);
    tiles.template load<1>(call.sum + kTileRows, kPanelBytes);
    tiles.template load<2>(call.sum + kBlock, kPanelBytes);
    tiles.template load<3>(call.sum + kBlock + kTileRows, kPanelBytes);
  } else {
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
  }
  const float* a = call.a;
  const float* b = call.b;
  for (std::int64_t k = 0; k < call.k; k += kAmxWords) {
    tiles.template load<4>(a, kTileRowBytes);
    tiles.template load<6>(b, kPanelBytes);
    tiles.template load<7>(b + kTileRows, kPanelBytes);
    tiles.template load<5>(a + kTileRows * kAmxWords, kTileRowBytes);
    tiles.template add_product<0, 4, 6>();
    tiles.template add_product<1, 4, 7>();
    tiles.template add_product<2, 5, 6>();
    tiles.template add_product<3, 5, 7>();
    a += kAmxRows * kAmxWords;
    b += kAmxWords * kMicroColumns;
  }
  const bool whole = call.rows == kAmxRows && call.columns == kMicroColumns;
  alignas(64) float rest[kAmxRows * kMicroColumns];
  float* into = whole ? call.c : rest;
  const std::int64_t ld = whole ? call.ldc : kMicroColumns;
  const std::int64_t row_bytes = ld * std::int64_t(sizeof(float));
  tiles.template store<0>(into, row_bytes);
  tiles.template store<1>(into + kTileRows, row_bytes);
  tiles.template store<2>(into + kTileRows * ld, row_bytes);
  tiles.template store<3>(into + kTileRows * ld + kTileRows, row_bytes);
  if (whole) return;
  for (std::int64_t r = 0; r < call.rows; ++r) {
    std::copy_n(rest + r * kMicroColumns, call.columns, call.c + r * call.ldc);
  }
}

/// All eight tiles are 16 rows of 64 bytes.
void begin_tiles() {
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static_assert(sizeof(Config) == 64);
  Config config;
  std::fill_n(config.row_bytes, 8, std::uint16_t(kTileRowBytes));
  std::fill_n(config.rows, 8, std::uint8_t(kTileRows));
  __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

void end_tiles() { __asm__ volatile("tilerelease"); }

template <typename Tiles>
MicroKernels kernels_on(void (*begin)(), void (*end)()) {
  MicroKernels kernels;
  kernels.rows = kAmxRows;
  kernels.step = kAmxWords;
  kernels.tiles = true;
  kernels.begin = begin;
  kernels.end = end;
  kernels.tile = multiply_tiles<Tiles>;
  return kernels;
}

}  // namespace

const MicroKernels& amx_micro_kernels() {
  static const MicroKernels kernels = kernels_on<AmxTiles>(begin_tiles, end_tiles);
  return kernels;
}

const MicroKernels& emulated_amx_micro_kernels() {
  static const MicroKernels kernels = kernels_on<EmulatedTiles>(nullptr, nullptr);
  return kernels;
}

void pack_amx_block(const std::uint16_t* src, std::int64_t ld, bool by_k, std::int64_t count,
                    std::int64_t num_k, float* dst) {
  constexpr std::int64_t kTerms = 2 * kAmxWords;
  for (std::int64_t k = 0; k < num_k; k += kTerms, dst += kAmxRows * kAmxWords) {
    const std::int64_t terms = std::min(kTerms, num_k - k);
    if (!by_k) {
      std::memset(dst, 0, kAmxRows * kTileRowBytes);
      for (std::int64_t r = 0; r < count; ++r) {
        std::memcpy(dst + r * kAmxWords, src + r * ld + k,
                    std::size_t(terms) * sizeof(std::uint16_t));
      }
      continue;
    }
    alignas(64) float words[kAmxWords * kAmxRows] = {};  // [word][row]
    pack_rows_pairs(src + k * ld, ld, count, terms, kAmxRows, words);
    pack_transposed(words, kAmxRows, kAmxWords, kAmxRows, kAmxWords, dst);
  }
}

}  // namespace tr::cpu
