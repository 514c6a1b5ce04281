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
  std::int64_t batch_size = 0;     // samples of the micro-batch
  std::int64_t step_position = 0;  // of the step's first sample in the epoch's order
  /// Its one sample is the one before the micro-batch's first, for whoever mixes batches: row
  /// `batch_size`.
  bool is_partner() const { return count > 0 && first_row == batch_size; }
};

/// How a stream is cut, by split.
struct UnitPlan {
  std::array<std::int64_t, 2> samples{1, 1};  // rows of a unit; the last of a batch may have fewer
  /// Batches are mixed: a micro-batch that is a part of its step has a unit more, of the sample
  /// before its first one; before the step's first comes its last.
  std::array<bool, 2> mixes{};
};

/// Walks the stream by units, forwards only. Each thread has one of its own.
class UnitCursor {
 public:
  UnitCursor(const StreamCursor& start, const UnitPlan& plan);

  /// Moves to unit `index` of the stream, which is not behind the present one. False: the stream
  /// ends before it.
  bool seek(std::int64_t index);
  Unit unit() const;

 private:
  /// Of its own samples, at least one.
  std::int64_t row_units() const;
  bool has_partner() const;
  std::int64_t units_of_batch() const { return row_units() + (has_partner() ? 1 : 0); }

  StreamCursor batches_;
  UnitPlan plan_;
  std::int64_t batch_ = 0;
  std::int64_t first_unit_ = 0;  // of the batch, in the stream
  std::int64_t index_ = 0;
};

}  // namespace tr::data
