// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/packed_matmul.h"

#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/packing.h"
#include "backend/cpu/partition.h"
#include "core/check.h"

namespace tr::cpu {
namespace {

/// Terms of a sum that a panel of B holds: 32 x 1024 floats are 128 KiB of the L2 cache.
constexpr std::int64_t kDepth = 1024;
/// Fewer tiles than this and rows are cut too, down to kMinTileRows, so that threads find work.
constexpr std::int64_t kWantedTiles = 8;
constexpr std::int64_t kMinTileRows = 4 * kMicroRows;

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
      : TiledMatmul(shape, tile_rows(shape), tile_columns(shape)) {
    TR_ASSERT(shape.dtype == DType::FP32);
  }

  std::int64_t num_setup_tasks() const override { return num_row_tiles(); }
  std::int64_t shared_bytes() const override {
    return shape().m * shape().k * std::int64_t(sizeof(float));
  }

  // Block b of a tile's rows lies at its first row times k: [k][height] inside.
  void run_setup(std::int64_t task, const void* a, const void*, std::byte* shared) const override {
    const MatmulShape& s = shape();
    const MatmulTile place = tile(task * num_column_tiles());
    const RowBlocks blocks{place.num_rows};
    for (std::int64_t block = 0; block < blocks.count(); ++block) {
      const std::int64_t row = place.row + blocks.begin(block);
      const std::int64_t height = blocks.height(block);
      float* packed = reinterpret_cast<float*>(shared) + row * s.k;
      const float* from = static_cast<const float*>(a);
      if (s.transpose_a) {
        pack_rows(from + row, s.lda(), height, s.k, height, packed);
      } else {
        pack_transposed(from + row * s.lda(), s.lda(), height, s.k, height, packed);
      }
    }
  }

  std::int64_t scratch_bytes() const override {
    const std::int64_t depth = std::min(kDepth, shape().k);
    return depth * round_up(tile_columns(shape()), kMicroColumns) * std::int64_t(sizeof(float));
  }

  void run_tile(std::int64_t index, const void*, const void* b, float* c, const std::byte* shared,
                std::byte* scratch) const override {
    const MatmulShape& s = shape();
    const MatmulTile place = tile(index);
    auto* panels = reinterpret_cast<float*>(scratch);
    for (std::int64_t k = 0; k < s.k || k == 0; k += kDepth) {
      const std::int64_t depth = std::min(kDepth, s.k - k);
      for (std::int64_t column = 0; column < place.num_columns; column += kMicroColumns) {
        pack_panel(static_cast<const float*>(b), k, depth, place.column + column,
                   panels + column * depth);
      }
      multiply(place, k, depth, reinterpret_cast<const float*>(shared), panels, c);
    }
  }

 private:
  std::int64_t num_column_tiles() const { return ceil_div(shape().n, tile_columns(shape())); }
  std::int64_t num_row_tiles() const { return num_tiles() / num_column_tiles(); }

  void pack_panel(const float* b, std::int64_t k, std::int64_t depth, std::int64_t column,
                  float* panel) const {
    const MatmulShape& s = shape();
    const std::int64_t columns = std::min<std::int64_t>(kMicroColumns, s.n - column);
    if (s.transpose_b) {
      pack_transposed(b + column * s.ldb() + k, s.ldb(), columns, depth, kMicroColumns, panel);
    } else {
      pack_rows(b + k * s.ldb() + column, s.ldb(), columns, depth, kMicroColumns, panel);
    }
  }

  void multiply(const MatmulTile& place, std::int64_t k, std::int64_t depth, const float* packed_a,
                const float* panels, float* c) const {
    const MatmulShape& s = shape();
    const auto& kernels = avx512_micro_kernels();
    const RowBlocks blocks{place.num_rows};
    for (std::int64_t block = 0; block < blocks.count(); ++block) {
      const std::int64_t row = place.row + blocks.begin(block);
      const std::int64_t height = blocks.height(block);
      for (std::int64_t column = 0; column < place.num_columns; column += kMicroColumns) {
        MicroCall call;
        call.a = packed_a + row * s.k + k * height;
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
};

}  // namespace

bool has_packed_matmul() {
  return __builtin_cpu_supports("avx512f") != 0;
}

std::unique_ptr<TiledMatmul> make_packed_matmul(const MatmulShape& shape) {
  return std::make_unique<PackedMatmul>(shape);
}

}  // namespace tr::cpu
