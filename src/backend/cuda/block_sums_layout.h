// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/fc_epilogue.h"
#include "backend/cuda/workspace_layout.h"

namespace tr::cuda {

/// Workspace of fp32 sums [columns] that `blocks` blocks leave behind, a row each: the rows, then,
/// from `rest` on, what adding them takes.
struct BlockSumsLayout {
  ColumnSums sums;
  std::int64_t rest = 0, bytes = 0;

  BlockSumsLayout(std::int64_t blocks, std::int64_t columns)
      : sums{.rows = blocks, .columns = columns, .dtype = DType::FP32} {
    WorkspaceLayout layout;
    layout.reserve(sums.rows * sums.columns * std::int64_t(sizeof(float)));
    rest = layout.reserve(sums.workspace_bytes());
    bytes = layout.bytes();
  }
};

}  // namespace tr::cuda
