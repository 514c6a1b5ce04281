// SPDX-License-Identifier: Apache-2.0
#include "data/formats/baseline_scan.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tr::data {
namespace {

constexpr std::int64_t kBlock = 64;  // coefficients
constexpr std::size_t kBlockBytes = kBlock * sizeof(std::int16_t);
// More would not stay in a core's cache until they are asked for.
constexpr std::int64_t kMostWaiting = std::int64_t{1} << 17;

/// Of an MCU whose blocks lie one behind the other.
std::array<std::int16_t*, ScanLayout::kMostBlocks> blocks_at(std::int16_t* mcu) {
  std::array<std::int16_t*, ScanLayout::kMostBlocks> blocks;
  for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b] = mcu + b * std::size_t(kBlock);
  return blocks;
}

}  // namespace

bool BaselineScan::begin(std::span<const std::byte> data, const ScanLayout& layout) {
  if (!source_.begin(data, layout)) return false;
  main_ = ScanStream(source_);
  asked_ = asked_column_ = first_ = 0;
  last_ = layout.mcus_per_row - 1;
  last_row_ = layout.num_mcus / layout.mcus_per_row - 1;
  marks_ = nullptr;
  used_marks_ = false;
  ahead_ = {};
  ahead_row_ = 0;
  drop_ahead();
  paired_rows_ = 0;
  return true;
}

/// The next MCU of main_, and of ahead_ if it goes along.
bool BaselineScan::step(std::int16_t* const* blocks) {
  const bool good = goes_along() ? step_both(blocks) : main_.decode(blocks);
  if (good && main_.column() == 0) add_mark();
  return good;
}

bool BaselineScan::step_both(std::int16_t* const* blocks) {
  const ScanLayout& layout = source_.layout();
  const std::int64_t column = ahead_.column();  // main_'s, too
  if (column < first_ || column > last_) {
    const auto [good, ahead_is_good] = ScanStream::decode_both(main_, nullptr, ahead_, nullptr);
    if (!ahead_is_good) drop_ahead();
    return good;
  }
  const auto ahead_blocks = blocks_at(place_of(ahead_.mcu() / layout.mcus_per_row, column));
  std::memset(ahead_blocks[0], 0, std::size_t(layout.num_blocks) * kBlockBytes);
  // What main_ passes over though ahead_ does not goes to where nothing waits.
  const auto unused = blocks_at(waiting_.data());
  const auto [good, ahead_is_good] = ScanStream::decode_both(
      main_, blocks != nullptr ? blocks : unused.data(), ahead_, ahead_blocks.data());
  if (!ahead_is_good) drop_ahead();  // what is odd there is found again when it is asked for
  return good;
}

/// Up to MCU `mcu`, by a mark if there is one on the way.
bool BaselineScan::reach(std::int64_t mcu) {
  const std::int64_t width = source_.layout().mcus_per_row;
  if (marks_ != nullptr && main_.mcu() < mcu) {
    const std::int64_t i =
        std::min<std::int64_t>(mcu / width / marks_->rows_per_mark, marks_->known);
    const std::int64_t row = i * marks_->rows_per_mark;
    if (row * width > main_.mcu()) {
      if (goes_along()) drop_ahead();
      main_.go_to(*marks_, std::size_t(i - 1), row * width);
      used_marks_ = true;
    }
  }
  while (main_.mcu() < mcu) {
    if (!step(nullptr)) return false;
  }
  return true;
}

/// Before the first MCU of a row that is kept.
bool BaselineScan::begin_row(std::int64_t row) {
  if (waits(row) && !goes_along()) {
    if (main_.mcu() < ahead_end_) {  // the first of them
      main_ = ahead_;
      if (main_.column() == 0) add_mark();
    }
    return true;
  }
  if (waits(row)) drop_ahead();  // it did not get there
  return goes_along() || !can_set_out(row) || set_out(row);
}

/// The row that lies a mark behind `row` is wanted and can be gone to.
bool BaselineScan::can_set_out(std::int64_t row) const {
  if (marks_ == nullptr || row % marks_->rows_per_mark != 0) return false;
  const std::int64_t ahead = row + marks_->rows_per_mark;
  return ahead <= last_row_ && has_mark(ahead) && num_waiting() <= kMostWaiting;
}

/// Coefficients of the rows of a mark and of an MCU that nobody waits for.
std::int64_t BaselineScan::num_waiting() const {
  const std::int64_t mcus = marks_->rows_per_mark * (last_ - first_ + 1) + 1;
  return mcus * source_.layout().num_blocks * kBlock;
}

/// main_ to `row`, and ahead_ to the one that lies a mark behind it.
bool BaselineScan::set_out(std::int64_t row) {
  const std::int64_t width = source_.layout().mcus_per_row, rows = marks_->rows_per_mark;
  if (!reach(row * width)) return false;
  if (main_.mcu() != row * width) return true;
  waiting_.resize(std::max(waiting_.size(), std::size_t(num_waiting())));
  ahead_ = main_;
  ahead_.go_to(*marks_, std::size_t(row / rows), (row + rows) * width);
  used_marks_ = true;
  ahead_row_ = row + rows;
  ahead_row_end_ = std::min(ahead_row_ + rows, last_row_ + 1);
  ahead_end_ = (ahead_row_end_ - 1) * width + last_ + 1;
  return true;
}

void BaselineScan::drop_ahead() { ahead_row_end_ = ahead_end_ = 0; }

/// In waiting_, behind the place of an MCU that nobody waits for.
std::int16_t* BaselineScan::place_of(std::int64_t row, std::int64_t column) {
  const std::int64_t i = (row - ahead_row_) * (last_ - first_ + 1) + column - first_ + 1;
  return waiting_.data() + i * source_.layout().num_blocks * kBlock;
}

/// The MCU that is asked for, of a column that is kept.
bool BaselineScan::take(std::int16_t* const* blocks) {
  const ScanLayout& layout = source_.layout();
  const std::int64_t row = asked_ / layout.mcus_per_row;
  if (asked_column_ == first_ && !begin_row(row)) return false;
  if (!waits(row) || goes_along()) return reach(asked_) && step(blocks);
  paired_rows_ += asked_column_ == last_;
  const std::int16_t* from = place_of(row, asked_column_);
  for (int b = 0; b < layout.num_blocks; ++b, from += kBlock) {
    std::memcpy(blocks[b], from, kBlockBytes);
  }
  return true;
}

bool BaselineScan::decode_mcu(std::int16_t* const* blocks) {
  if (is_done()) return false;
  const bool keep = blocks != nullptr && asked_column_ >= first_ && asked_column_ <= last_;
  if (keep && !take(blocks)) return false;
  ++asked_;
  const std::int64_t width = source_.layout().mcus_per_row;
  if (++asked_column_ == width) {
    asked_column_ = 0;
    const bool begun = main_.mcu() > asked_ - width;
    if (begun && !has_mark(asked_ / width) && !reach(asked_)) return false;
  }
  return !is_done() || (reach(asked_) && main_.ends_at_marker());
}

void BaselineScan::use_marks(ScanMarks& marks) {
  const ScanLayout& layout = source_.layout();
  if (source_.num_bytes() > ScanMarks::kMostBytes ||
      layout.num_components > int(ScanMarks::kComponents)) {
    return;
  }
  waiting_.reserve(std::size_t(kMostWaiting));  // set_out() is called through libjpeg's frames
  marks_ = &marks;
  const std::int64_t rows = layout.num_mcus / layout.mcus_per_row;
  const bool reaches =
      marks.known == 0 || marks.offset_bits[marks.known - 1u] >> 3 < source_.num_bytes();
  if (!reaches) marks.known = 0;  // they are of other bytes
  marks.rows_per_mark = std::uint16_t(rows / std::int64_t(ScanMarks::kMost + 1) + 1);
}

bool BaselineScan::has_mark(std::int64_t row) const {
  return marks_ != nullptr && row % marks_->rows_per_mark == 0 &&
         row / marks_->rows_per_mark <= marks_->known;
}

/// Of the row that main_ is at the beginning of, if it is the next one that gets a mark.
void BaselineScan::add_mark() {
  if (marks_ == nullptr) return;
  const std::int64_t row = main_.mcu() / source_.layout().mcus_per_row;
  const std::size_t i = marks_->known;
  if (i == ScanMarks::kMost || row != std::int64_t(i + 1) * marks_->rows_per_mark) return;
  if (main_.mark(*marks_, i)) ++marks_->known;
}

}  // namespace tr::data
