// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ops/muon.h"

namespace tr::ops {

/// Elements to which each part of an optimizer's own state is padded: a cache line.
constexpr std::int64_t kStateAlignment = 16;
constexpr std::int64_t padded_state(std::int64_t elements) {
  return (elements + kStateAlignment - 1) / kStateAlignment * kStateAlignment;
}

/// The state of a matrix of shampoo and soap begins with kStateAlignment elements, of which the
/// first holds, as the bits of an int32, how many steps it has seen.
/// shampoo then has for each block L, R and their inverse fourth roots.
struct Block {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  std::int64_t elements() const { return rows * columns; }
  std::int64_t state_elements() const {
    return 2 * (padded_state(rows * rows) + padded_state(columns * columns));
  }
};
/// Of all matrices that one shampoo moves: each costs hundreds of products every so many steps.
constexpr std::int64_t kMaxBlocks = 65536;
/// A matrix cut into blocks of at most `size` rows and columns, row by row.
std::vector<Block> blocks_of(const Matrix& matrix, std::int64_t size);
std::int64_t shampoo_state_elements(const Matrix& matrix, std::int64_t block_size);

/// soap has L and its basis, then R and its basis, of those sides that are no longer than max_dim.
std::int64_t soap_state_elements(const Matrix& matrix, std::int64_t max_dim);

}  // namespace tr::ops
