// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/tiled_matmul.h"

#include "backend/cpu/partition.h"

namespace tr::cpu {

TiledMatmul::TiledMatmul(const MatmulShape& shape, std::int64_t tile_rows,
                         std::int64_t tile_columns)
    : shape_(shape),
      tile_rows_(std::max<std::int64_t>(1, std::min(tile_rows, shape.m))),
      tile_columns_(std::max<std::int64_t>(1, std::min(tile_columns, shape.n))),
      tiles_down_(ceil_div(shape.m, tile_rows_)),
      tiles_across_(ceil_div(shape.n, tile_columns_)) {}

MatmulTile TiledMatmul::tile(std::int64_t index) const {
  const bool rows = shape_.cut_rows;
  const std::int64_t row = (rows ? index / tiles_across_ : index % tiles_down_) * tile_rows_;
  const std::int64_t column = (rows ? index % tiles_across_ : index / tiles_down_) * tile_columns_;
  return {row, column, std::min(tile_rows_, shape_.m - row),
          std::min(tile_columns_, shape_.n - column)};
}

}  // namespace tr::cpu
