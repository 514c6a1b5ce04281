// SPDX-License-Identifier: Apache-2.0
#pragma once

// A feature map as rows of channels: how a grid of threads is laid over it. A thread keeps its
// channels, whose constants it loads once, and walks down the rows.

#include <algorithm>
#include <cstdint>

#include "backend/cuda/launch.h"
#include "renaissance/core/shape.h"

namespace tr::cuda {

struct ChannelRows {
  std::int64_t rows = 0;
  std::int64_t channels = 0;

  static ChannelRows of(const Shape& shape) {
    const std::int64_t channels = shape.back();
    return {channels == 0 ? 0 : shape.num_elements() / channels, channels};
  }
};

constexpr int kRowThreads = 256;            // of a block, at most
constexpr std::int64_t kMostSlices = 264;   // blocks of which a large device holds two on each
                                            // multiprocessor: all run at once; a constant, since
                                            // sums are cut by it
constexpr std::int64_t kRowsOfThread = 16;  // at least, where a slice is summed

/// Threads of a block: x over groups of `vector` channels, y over rows. grid.y goes over channels.
inline LaunchShape channel_block(const ChannelRows& shape, int vector) {
  const std::int64_t groups = ceil_div<std::int64_t>(shape.channels, vector);
  LaunchShape launch;
  std::int64_t across = groups;
  if (groups > 64) {
    // The widest of these that leaves few threads idle in the last block.
    across = 32;
    for (const std::int64_t width : {64, 56, 48, 40}) {
      if (groups % width == 0) {
        across = width;
        break;
      }
    }
  }
  launch.block.x = unsigned(across);
  launch.block.y = unsigned(std::max<std::int64_t>(1, kRowThreads / across));
  launch.grid.y = unsigned(ceil_div(groups, across));
  return launch;
}

/// Each thread maps `in_flight` rows.
inline LaunchShape channel_map_shape(const ChannelRows& shape, int vector, int in_flight) {
  LaunchShape launch = channel_block(shape, vector);
  const std::int64_t rows = std::int64_t(launch.block.y) * in_flight;
  launch.grid.x = unsigned(std::max<std::int64_t>(1, ceil_div(shape.rows, rows)));
  return launch;
}

/// Slices of rows that are summed apart, then added. They depend on the shape alone: so do the
/// bytes of the sums.
inline std::int64_t num_slices(const ChannelRows& shape, int vector) {
  const LaunchShape launch = channel_block(shape, vector);
  const std::int64_t most = std::max<std::int64_t>(1, kMostSlices / launch.grid.y);
  return std::clamp<std::int64_t>(shape.rows / (launch.block.y * kRowsOfThread), 1, most);
}

}  // namespace tr::cuda
