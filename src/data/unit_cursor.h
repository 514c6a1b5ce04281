// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "data/stream_cursor.h"

namespace tr::data {

/// Rows of one micro-batch that follow each other: what a thread takes at once. The stream is cut
/// into units beforehand, so which unit holds which sample is known without asking anyone.
struct Unit {
  std::int64_t batch = 0;           // of the stream
  std::int64_t units_of_batch = 1;  // an empty micro-batch has one, of no rows
  Split split = Split::TRAIN;
  std::int64_t epoch = 0;
  const Permutation* order = nullptr;  // of the cursor's phase: valid until the cursor moves
  std::int64_t first_position = 0;     // of its first sample in the epoch's order
  std::int64_t first_row = 0;          // in the micro-batch
  std::int64_t count = 0;
};

/// Walks the stream by units, forwards only. Each thread has one of its own.
class UnitCursor {
 public:
  /// `unit_samples[split]`: rows of a unit; the last one of a batch may have fewer.
  UnitCursor(const StreamCursor& start, std::array<std::int64_t, 2> unit_samples);

  /// Moves to unit `index` of the stream, which is not behind the present one. False: the stream
  /// ends before it.
  bool seek(std::int64_t index);
  Unit unit() const;

 private:
  std::int64_t units_of_batch() const;

  StreamCursor batches_;
  std::array<std::int64_t, 2> unit_samples_;
  std::int64_t batch_ = 0;
  std::int64_t first_unit_ = 0;  // of the batch, in the stream
  std::int64_t index_ = 0;
};

}  // namespace tr::data
