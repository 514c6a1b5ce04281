// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/partition.h"
#include "backend/cpu/sums.h"
#include "backend/kernel.h"

namespace tr::cpu {

/// Rows of one task of a loss over rows of `columns` elements.
inline std::int64_t loss_chunk(std::int64_t columns) {
  return rows_per_task(4 * columns);
}

/// Workspace of sum_rows(): a partial sum a task.
inline std::int64_t loss_workspace(std::int64_t rows, std::int64_t columns) {
  return ceil_div(rows, loss_chunk(columns)) * std::int64_t(sizeof(double));
}

/// Sum over rows of f(row), the tasks' partial sums added in a fixed order.
template <typename F>
float sum_rows(const KernelArgs& args, std::int64_t rows, std::int64_t columns, F&& f) {
  auto* partial = reinterpret_cast<double*>(args.workspace());
  const std::int64_t chunk = loss_chunk(columns);
  for_chunks(args.pool(), rows, chunk, [&](std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (std::int64_t row = begin; row < end; ++row) sum += double(f(row));
    partial[begin / chunk] = sum;
  });
  return float(tree_sum(partial, ceil_div(rows, chunk)));
}

}  // namespace tr::cpu
