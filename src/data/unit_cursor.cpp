// SPDX-License-Identifier: Apache-2.0
#include "data/unit_cursor.h"

#include <algorithm>

#include "core/check.h"

namespace tr::data {

UnitCursor::UnitCursor(const StreamCursor& start, const UnitPlan& plan)
    : batches_(start), plan_(plan) {
  TR_ASSERT(plan.samples[0] >= 1 && plan.samples[1] >= 1);
}

std::int64_t UnitCursor::row_units() const {
  const std::int64_t rows = plan_.samples[std::size_t(batches_.phase().split)];
  return std::max<std::int64_t>(1, (batches_.share().size + rows - 1) / rows);
}

bool UnitCursor::has_partner() const {
  const std::int64_t size = batches_.share().size;
  return plan_.mixes[std::size_t(batches_.phase().split)] && size > 0 &&
         size < batches_.sampler().step_size(batches_.step());
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
  const std::int64_t rows = plan_.samples[std::size_t(batches_.phase().split)];
  const std::int64_t first = (index_ - first_unit_) * rows;
  const std::int64_t step_start = batches_.step() * batches_.sampler().config().global_batch;
  Unit unit{.batch = batch_,
            .units_of_batch = units_of_batch(),
            .split = batches_.phase().split,
            .epoch = batches_.phase().epoch,
            .order = &batches_.order(),
            .first_position = step_start + share.offset + first,
            .first_row = first,
            .count = std::min(rows, share.size - first),
            .batch_size = share.size,
            .step_position = step_start};
  if (has_partner() && index_ - first_unit_ == row_units()) {
    const std::int64_t step_size = batches_.sampler().step_size(batches_.step());
    unit.first_position = step_start + (share.offset + step_size - 1) % step_size;
    unit.first_row = share.size;
    unit.count = 1;
  }
  return unit;
}

}  // namespace tr::data
