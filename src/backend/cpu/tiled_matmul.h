// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "renaissance/core/dtype.h"

namespace tr::cpu {

/// C = A B with C fp32 [m, n], A [m, k], B [k, n], all row-major and dense. A transposed operand is
/// stored the other way round: A as [k, m], B as [n, k].
struct MatmulShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  DType dtype = DType::FP32;  // of A and B as they are stored
  /// What a task should have whole: columns of C (features of a layer's output) or rows (those of a
  /// weight's gradient), so that a thread meets the same part of a weight in all its products.
  bool cut_rows = false;

  std::int64_t lda() const { return transpose_a ? m : k; }
  std::int64_t ldb() const { return transpose_b ? k : n; }
};

/// Part of C that one task computes.
struct MatmulTile {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t num_rows = 0;
  std::int64_t num_columns = 0;
};

/// A matrix product cut into tiles that run independently of each other, in any order, on any
/// thread. The cut depends on the shape alone. Tiles are numbered along the cut of
/// MatmulShape::cut_rows: neighbours share rows, or columns.
class TiledMatmul {
 public:
  virtual ~TiledMatmul() = default;

  const MatmulShape& shape() const { return shape_; }
  std::int64_t num_tiles() const { return tiles_down_ * tiles_across_; }
  MatmulTile tile(std::int64_t index) const;
  /// Work that all tiles share (packing): tasks to run before any tile, and the bytes they fill.
  virtual std::int64_t num_setup_tasks() const { return 0; }
  virtual std::int64_t shared_bytes() const { return 0; }
  virtual void run_setup(std::int64_t /*task*/, const void* /*a*/, const void* /*b*/,
                         std::byte* /*shared*/) const {}
  /// Scratch of one tile; tiles that run at the same time need one each.
  virtual std::int64_t scratch_bytes() const = 0;
  /// Computes tile `index` of `c`. `shared` and `scratch` are aligned to 64 bytes.
  virtual void run_tile(std::int64_t index, const void* a, const void* b, float* c,
                        const std::byte* shared, std::byte* scratch) const = 0;

 protected:
  TiledMatmul(const MatmulShape& shape, std::int64_t tile_rows, std::int64_t tile_columns);

 private:
  MatmulShape shape_;
  std::int64_t tile_rows_;
  std::int64_t tile_columns_;
  std::int64_t tiles_down_;
  std::int64_t tiles_across_;
};

}  // namespace tr::cpu
