// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/thread_pool.h"

namespace tr::cpu {

/// Elements of one task of a streaming kernel: 64 KiB of fp32, far above the cost of handing it
/// out.
constexpr std::int64_t kStreamChunk = 16384;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

/// Calls f(task) for 0 .. num_tasks - 1; a single task runs here, without waking anybody.
template <typename F>
void for_tasks(ThreadPool& pool, std::int64_t num_tasks, F&& f) {
  if (num_tasks == 1) {
    f(std::int64_t(0));
    return;
  }
  if (num_tasks > 0) pool.parallel_for(num_tasks, [&](std::int64_t task, int) { f(task); });
}

/// Calls f(begin, end) for runs of `chunk` of 0 .. count - 1. The cut depends on `count` alone.
template <typename F>
void for_chunks(ThreadPool& pool, std::int64_t count, std::int64_t chunk, F&& f) {
  for_tasks(pool, ceil_div(count, chunk),
            [&](std::int64_t task) { f(task * chunk, std::min(count, (task + 1) * chunk)); });
}

/// Rows of `columns` elements for each task, so that a task has about kStreamChunk elements.
inline std::int64_t rows_per_task(std::int64_t columns) {
  return std::max<std::int64_t>(1, kStreamChunk / std::max<std::int64_t>(1, columns));
}

}  // namespace tr::cpu
