// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/packed_matmul.h"

#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/packing.h"
#include "backend/cpu/partition.h"
#include "core/check.h"

namespace tr::cpu {
namespace {

/// Terms of a sum that a panel of B holds: 32 x 256 floats are 32 KiB, which the blocks of A find
/// in the nearest caches (1024 terms: 137 instead of 200 GFLOP/s on two cores).
constexpr std::int64_t kDepth = 256;
/// Fewer tiles than this and rows are cut too, down to kMinTileRows, so that threads find work.
constexpr std::int64_t kWantedTiles = 8;
constexpr std::int64_t kMinTileRows = 4 * kMicroRows;
/// Blocks of A that one setup task packs: small, so that threads share the packing too.
constexpr std::int64_t kSetupBlocks = 2;

/// Rows cut into blocks of nearly equal height, none above kMicroRows.
struct RowBlocks {
  std::int64_t rows = 0;
  std::int64_t count() const { return ceil_div(rows, kMicroRows); }
  std::int64_t begin(std::int64_t block) const { return block * rows / count(); }
  std::int64_t height(std::int64_t block) const { return begin(block + 1) - begin(block); }
};

std::int64_t tile_columns(const MatmulShape& shape) {
  return shape.n >= 2 * kWantedTiles * kMicroColumns ? 2 * kMicroColumns : kMicroColumns;
}

std::int64_t tile_rows(const MatmulShape& shape) {
  const std::int64_t across = std::max<std::int64_t>(1, ceil_div(shape.n, tile_columns(shape)));
  const std::int64_t down = ceil_div(kWantedTiles, across);
  return std::max(kMinTileRows, round_up(ceil_div(shape.m, down), kMicroRows));
}

class PackedMatmul final : public TiledMatmul {
 public:
  explicit PackedMatmul(const MatmulShape& shape)
      : TiledMatmul(shape, tile_rows(shape), tile_columns(shape)),
        pairs_(shape.dtype == DType::BF16),
        words_(pairs_ ? ceil_div(shape.k, 2) : shape.k) {
    TR_ASSERT(shape.dtype == DType::FP32 || shape.dtype == DType::BF16);
  }

  std::int64_t num_setup_tasks() const override { return num_row_tiles() * setup_tasks_of_tile(); }
  std::int64_t shared_bytes() const override {
    return shape().m * words_ * std::int64_t(sizeof(float));
  }

  // A block of rows lies at its first row times words_: [words_][height] inside.
  void run_setup(std::int64_t task, const void* a, const void*, std::byte* shared) const override {
    const MatmulShape& s = shape();
    const MatmulTile place = tile(task / setup_tasks_of_tile() * num_column_tiles());
    const RowBlocks blocks{place.num_rows};
    const std::int64_t first = task % setup_tasks_of_tile() * kSetupBlocks;
    const std::int64_t last = std::min(first + kSetupBlocks, blocks.count());
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t row = place.row + blocks.begin(block), height = blocks.height(block);
      float* packed = reinterpret_cast<float*>(shared) + row * words_;
      const std::int64_t from = s.transpose_a ? row : row * s.lda();
      pack(a, from, s.lda(), s.transpose_a, {height, s.k, height}, packed);
    }
  }

  std::int64_t scratch_bytes() const override {
    const std::int64_t depth = std::min(kDepth, words_);
    return depth * round_up(tile_columns(shape()), kMicroColumns) * std::int64_t(sizeof(float));
  }

  void run_tile(std::int64_t index, const void*, const void* b, float* c, const std::byte* shared,
                std::byte* scratch) const override {
    const MatmulTile place = tile(index);
    auto* panels = reinterpret_cast<float*>(scratch);
    for (std::int64_t k = 0; k < words_ || k == 0; k += kDepth) {
      const std::int64_t depth = std::min(kDepth, words_ - k);
      for (std::int64_t column = 0; column < place.num_columns; column += kMicroColumns) {
        pack_panel(b, k, depth, place.column + column, panels + column * depth);
      }
      multiply(place, k, depth, reinterpret_cast<const float*>(shared), panels, c);
    }
  }

 private:
  /// What a packed block holds: `count` rows or columns (padded to `width`) of `num_k` terms.
  struct Block {
    std::int64_t count;
    std::int64_t num_k;
    std::int64_t width;
  };

  std::int64_t num_column_tiles() const { return ceil_div(shape().n, tile_columns(shape())); }
  std::int64_t num_row_tiles() const { return num_tiles() / num_column_tiles(); }
  /// Of the first tile, the highest; tasks beyond the last block of a lower one do nothing.
  std::int64_t setup_tasks_of_tile() const {
    return std::max<std::int64_t>(1, ceil_div(RowBlocks{tile(0).num_rows}.count(), kSetupBlocks));
  }

  /// Packs from element `from` of an operand; `by_k`: its rows are terms, else they are what is
  /// counted.
  void pack(const void* operand, std::int64_t from, std::int64_t ld, bool by_k, const Block& block,
            float* packed) const {
    if (pairs_) {
      const auto* source = static_cast<const std::uint16_t*>(operand) + from;
      const auto how = by_k ? pack_rows_pairs : pack_transposed_pairs;
      how(source, ld, block.count, block.num_k, block.width, packed);
    } else {
      const auto* source = static_cast<const float*>(operand) + from;
      const auto how = by_k ? pack_rows : pack_transposed;
      how(source, ld, block.count, block.num_k, block.width, packed);
    }
  }

  void pack_panel(const void* b, std::int64_t word, std::int64_t depth, std::int64_t column,
                  float* panel) const {
    const MatmulShape& s = shape();
    const std::int64_t per_word = pairs_ ? 2 : 1, k = word * per_word;
    const Block block{std::min<std::int64_t>(kMicroColumns, s.n - column),
                      std::min(depth * per_word, s.k - k), kMicroColumns};
    const std::int64_t from = s.transpose_b ? column * s.ldb() + k : k * s.ldb() + column;
    pack(b, from, s.ldb(), !s.transpose_b, block, panel);
  }

  void multiply(const MatmulTile& place, std::int64_t k, std::int64_t depth, const float* packed_a,
                const float* panels, float* c) const {
    const MatmulShape& s = shape();
    const MicroKernels& kernels = pairs_ ? bf16_micro_kernels() : fp32_micro_kernels();
    const RowBlocks blocks{place.num_rows};
    for (std::int64_t block = 0; block < blocks.count(); ++block) {
      const std::int64_t row = place.row + blocks.begin(block), height = blocks.height(block);
      for (std::int64_t column = 0; column < place.num_columns; column += kMicroColumns) {
        MicroCall call;
        call.a = packed_a + row * words_ + k * height;
        call.b = panels + column * depth;
        call.c = c + row * s.n + place.column + column;
        call.ldc = s.n;
        call.k = depth;
        call.columns = std::min<std::int64_t>(kMicroColumns, place.num_columns - column);
        call.accumulate = k > 0;
        kernels[std::size_t(height)](call);
      }
    }
  }

  bool pairs_;          // bf16: a word is a pair of terms
  std::int64_t words_;  // of a whole sum
};

}  // namespace

bool has_packed_matmul(DType dtype) {
  if (dtype == DType::FP32) return __builtin_cpu_supports("avx512f") != 0;
  return dtype == DType::BF16 && __builtin_cpu_supports("avx512bf16") != 0;
}

std::unique_ptr<TiledMatmul> make_packed_matmul(const MatmulShape& shape) {
  return std::make_unique<PackedMatmul>(shape);
}

}  // namespace tr::cpu
