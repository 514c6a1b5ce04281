// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/permutation.h"
#include "core/pixel/program.h"

namespace tr {

// A split whose samples stay in a device's memory: what the device is given, and what it is told
// of each micro-batch. The batches are those of the host's loader, byte for byte.

/// A field of all samples in host memory, [num_samples, sample_bytes].
struct ResidentField {
  std::string name;
  const std::byte* data = nullptr;
  std::int64_t sample_bytes = 0;
};

struct ResidentSplit {
  std::int64_t num_samples = 0;
  std::uint64_t seed = 0;
  std::uint64_t split = 0;  // 0: training, 1: validation; part of the addresses of draws and order
  std::vector<ResidentField> fields;
  /// How the field "image" becomes the step's input. Null: it is copied, as all other fields are.
  const pixel::Program* image = nullptr;
  bool shuffle = false;
};

/// What the device reads before it assembles a micro-batch: sample b is
/// order(position + b), or position + b without shuffle. Places at and behind num_samples have no
/// sample: their rows stay as they are.
struct FeedRow {
  Permutation order;
  std::int64_t epoch = 0;
  std::int64_t position = 0;  // place of the micro-batch's first sample in the epoch's order
  std::int32_t shuffle = 0;
};

/// The row of the micro-batch that begins at `position` of an epoch.
inline FeedRow feed_row(const ResidentSplit& split, std::int64_t epoch, std::int64_t position) {
  return {.order = make_permutation(std::uint64_t(split.num_samples), split.seed,
                                    std::uint64_t(epoch), split.split),
          .epoch = epoch,
          .position = position,
          .shuffle = split.shuffle ? 1 : 0};
}

}  // namespace tr
