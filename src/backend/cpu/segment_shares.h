// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "backend/cpu/partition.h"
#include "graph/memory_plan.h"

namespace tr::cpu {

/// Elements [begin, end) of a range.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Parts into which every segment is cut: far more than threads, so that the late ones are helped.
constexpr std::int64_t kSegmentShares = 64;

/// Share `index` of a segment, cut at cache lines.
inline Span segment_share(const Segment& segment, std::int64_t index) {
  constexpr std::int64_t kLine = 16;
  const std::int64_t lines = ceil_div(segment.count, kLine);
  const auto cut = [&](std::int64_t share) {
    return segment.begin + std::min(segment.count, lines * share / kSegmentShares * kLine);
  };
  return {cut(index), cut(index + 1)};
}

/// Calls f(segment, span) for the parts of all segments. A task takes the same share of every
/// segment, and tasks go to threads as the rows of a weight do in the products (fc_product.h): a
/// thread finds the gradients that it made, and in the next step the weights that it updated, in
/// its own caches.
template <typename F>
void for_shares(ThreadPool& pool, std::span<const Segment> segments, F&& f) {
  for_tasks(pool, kSegmentShares, [&](std::int64_t task) {
    for (const Segment& segment : segments) {
      const Span share = segment_share(segment, task);
      if (share.begin < share.end) f(segment, share);
    }
  });
}

}  // namespace tr::cpu
