// SPDX-License-Identifier: Apache-2.0
#include "data/unit_cursor.h"

#include <algorithm>

#include "core/check.h"

namespace tr::data {

UnitCursor::UnitCursor(const StreamCursor& start, std::array<std::int64_t, 2> unit_samples)
    : batches_(start), unit_samples_(unit_samples) {
  TR_ASSERT(unit_samples[0] >= 1 && unit_samples[1] >= 1);
}

std::int64_t UnitCursor::units_of_batch() const {
  const std::int64_t rows = unit_samples_[std::size_t(batches_.phase().split)];
  return std::max<std::int64_t>(1, (batches_.share().size + rows - 1) / rows);
}

bool UnitCursor::seek(std::int64_t index) {
  while (!batches_.at_end()) {
    const std::int64_t units = units_of_batch();
    if (index < first_unit_ + units) {
      index_ = index;
      return true;
    }
    batches_.advance();
    first_unit_ += units;
    ++batch_;
  }
  return false;
}

Unit UnitCursor::unit() const {
  const Share share = batches_.share();
  const std::int64_t rows = unit_samples_[std::size_t(batches_.phase().split)];
  const std::int64_t first = (index_ - first_unit_) * rows;
  const std::int64_t step_start = batches_.step() * batches_.sampler().config().global_batch;
  return {.batch = batch_,
          .units_of_batch = units_of_batch(),
          .split = batches_.phase().split,
          .epoch = batches_.phase().epoch,
          .order = &batches_.order(),
          .first_position = step_start + share.offset + first,
          .first_row = first,
          .count = std::min(rows, share.size - first)};
}

}  // namespace tr::data
