// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/formats/scan_marks.h"
#include "data/formats/scan_stream.h"

namespace tr::data {

/// Entropy decoder of a baseline JPEG scan: coefficients as libjpeg gives them. At anything odd it
/// gives up, and what the picture is worth is found out by libjpeg. Where marks say where two rows
/// begin, or twice as many of a large picture, both are decoded side by side, and the later ones'
/// coefficients wait.
class BaselineScan {
 public:
  /// See ScanSource::begin().
  bool begin(std::span<const std::byte> data, const ScanLayout& layout);

  /// Behind begin(): rows whose places `marks` knows are gone to, others are added to it. It must
  /// be of the same bytes, or empty, and outlive the scan.
  void use_marks(ScanMarks& marks);

  /// From now on MCUs of other columns are passed over.
  void keep_columns(std::int64_t first, std::int64_t last) { first_ = first, last_ = last; }
  /// Rows of MCUs behind this one are not likely to be asked for.
  void expect_rows(std::int64_t last) { last_row_ = last; }

  /// Adds the next MCU's coefficients to blocks of 64 zeros, in row-major order; null: they are
  /// passed over. What is passed over is decoded when a later MCU is wanted, or its row was begun,
  /// unless a mark shows that this was done before. False: the data is odd here; nothing more can
  /// be decoded.
  bool decode_mcu(std::int16_t* const* blocks);

  /// Behind the last MCU: bytes of `data` up to the marker that ends the scan.
  std::size_t position() const { return std::size_t(main_.position() - source_.data()); }
  bool is_done() const { return asked_ == source_.layout().num_mcus; }

  /// Rows were gone to.
  bool used_marks() const { return used_marks_; }
  /// Of which coefficients waited until they were asked for.
  std::int64_t paired_rows() const { return paired_rows_; }
  std::size_t memory_bytes() const { return waiting_.capacity() * sizeof(std::int16_t); }

 private:
  bool begin_row(std::int64_t row);
  bool can_set_out(std::int64_t row) const;
  std::int64_t num_waiting() const;
  bool set_out(std::int64_t row);
  void drop_ahead();
  bool take(std::int16_t* const* blocks);
  bool step(std::int16_t* const* blocks);
  bool step_both(std::int16_t* const* blocks);
  bool reach(std::int64_t mcu);
  bool has_mark(std::int64_t row) const;
  void add_mark();
  bool goes_along() const { return ahead_.mcu() < ahead_end_; }
  bool waits(std::int64_t row) const { return row >= ahead_row_ && row < ahead_row_end_; }
  std::int16_t* place_of(std::int64_t row, std::int64_t column);

  ScanSource source_;
  ScanStream main_;                            // not behind the MCU that is asked for next
  std::int64_t asked_ = 0, asked_column_ = 0;  // that one
  std::int64_t first_ = 0, last_ = 0;          // columns that are kept
  std::int64_t last_row_ = 0;
  ScanMarks* marks_ = nullptr;
  bool used_marks_ = false;

  // Decodes the rows from ahead_row_ to ahead_row_end_ while main_ does those that lie a mark
  // before, up to MCU ahead_end_; in waiting_ are their coefficients.
  ScanStream ahead_;
  std::int64_t ahead_row_ = 0, ahead_row_end_ = 0, ahead_end_ = 0;
  std::int64_t paired_rows_ = 0;
  std::vector<std::int16_t> waiting_;
};

}  // namespace tr::data
