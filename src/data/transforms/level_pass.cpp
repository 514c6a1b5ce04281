// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/level_pass.h"

#include <algorithm>
#include <cstring>

#include "core/pixel/levels.h"

namespace tr::data {

void find_bounds(const ImageRef& src, std::span<LevelBounds> bounds) {
  // Runs of 32 pixels: place i of a run is always the same channel, so the loop is whole vectors.
  const int channels = src.shape.channels, run = 32 * channels;
  std::uint8_t least[32 * kMaxChannels], largest[32 * kMaxChannels];
  std::memset(least, 255, std::size_t(run));
  std::memset(largest, 0, std::size_t(run));
  for (int y = 0; y < src.shape.height; ++y) {
    const std::uint8_t* line = src.row(y);
    const int bytes = int(src.shape.row_bytes());
    for (int x = 0; x < bytes; x += run, line += run) {
      const int count = std::min(run, bytes - x);
      for (int i = 0; i < count; ++i) {
        least[i] = std::min(least[i], line[i]);
        largest[i] = std::max(largest[i], line[i]);
      }
    }
  }
  for (int i = 0; i < run; ++i) {
    LevelBounds& bound = bounds[std::size_t(i % channels)];
    bound.least = std::min(bound.least, least[i]);
    bound.largest = std::max(bound.largest, largest[i]);
  }
}

void apply_tables(const ImageRef& src, const std::uint8_t* tables, std::uint8_t* dst) {
  const int channels = src.shape.channels;
  for (int y = 0; y < src.shape.height; ++y) {
    const std::uint8_t* line = src.row(y);
    for (int x = 0; x < src.shape.width; ++x) {
      for (int c = 0; c < channels; ++c) *dst++ = tables[256 * c + *line++];
    }
  }
}

void stretch_levels(const ImageRef& src, std::uint8_t* dst, std::byte* scratch) {
  LevelBounds bounds[kMaxChannels];
  find_bounds(src, bounds);
  auto* tables = reinterpret_cast<std::uint8_t*>(scratch);
  for (int c = 0; c < src.shape.channels; ++c) {
    for (int x = 0; x < 256; ++x) {
      tables[256 * c + x] = std::uint8_t(pixel::stretched(x, bounds[c].least, bounds[c].largest));
    }
  }
  apply_tables(src, tables, dst);
}

}  // namespace tr::data
