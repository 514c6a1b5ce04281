// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/float_rows.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {

/// [rows, channels] seen as one run of elements whose columns repeat: few channels are repeated
/// side by side to rows of about 128 columns, so that loops over a row are long enough to be
/// vectorised. Cut into chunks by shape alone; each chunk begins with a whole row, and its first
/// element at a multiple of 8, so that masks of one bit an element are cut at bytes.
class WideRows {
 public:
  WideRows(std::int64_t rows, std::int64_t channels)
      : rows_(rows),
        channels_(channels),
        fold_(std::max<std::int64_t>(1, kWidth / std::max<std::int64_t>(1, channels))),
        chunk_(round_up(std::max<std::int64_t>(1, kChunk / std::max<std::int64_t>(1, width())), 8) *
               width()) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t channels() const { return channels_; }
  /// Columns of a wide row: channel c stands in columns c, c + channels, ...
  std::int64_t width() const { return channels_ * fold_; }
  std::int64_t num_elements() const { return rows_ * channels_; }
  std::int64_t num_chunks() const { return ceil_div(num_elements(), chunk_); }
  std::int64_t begin(std::int64_t chunk) const { return chunk * chunk_; }
  std::int64_t end(std::int64_t chunk) const {
    return std::min(num_elements(), (chunk + 1) * chunk_);
  }
  /// Rows of `channels` elements in a chunk.
  std::int64_t rows_of(std::int64_t chunk) const { return (end(chunk) - begin(chunk)) / channels_; }

  /// Calls f(element, column, n) for runs of at most kRowBlock columns of the chunk's wide rows.
  template <typename F>
  void for_runs(std::int64_t chunk, F&& f) const {
    const std::int64_t last = end(chunk);
    for (std::int64_t row = begin(chunk); row < last; row += width()) {
      const std::int64_t columns = std::min(width(), last - row);
      for (std::int64_t column = 0; column < columns; column += kRowBlock) {
        f(row + column, column, std::min(kRowBlock, columns - column));
      }
    }
  }

  /// Adds the columns of each channel: sums[0 .. channels) of sums[0 .. width).
  void fold(float* sums) const {
    for (std::int64_t column = channels_; column < width(); ++column) {
      sums[column % channels_] += sums[column];
    }
  }
  /// Repeats values[0 .. channels) to the whole width.
  void repeat(float* values) const {
    for (std::int64_t column = channels_; column < width(); ++column) {
      values[column] = values[column - channels_];
    }
  }

 private:
  static constexpr std::int64_t kWidth = 128;
  /// Elements of a chunk: what a kernel reads of it stays in the L2 cache between two passes.
  static constexpr std::int64_t kChunk = 65536;

  std::int64_t rows_, channels_, fold_, chunk_;
};

/// Sums over the rows of x: partial sums of each chunk in `partial` (num_chunks x width floats),
/// then one after the other in double.
template <typename T>
void sum_columns(ThreadPool& pool, const WideRows& x_rows, const T* x, float* partial,
                 float* sums) {
  const std::int64_t width = x_rows.width();
  for_tasks(pool, x_rows.num_chunks(), [&](std::int64_t chunk) {
    float* into = partial + chunk * width;
    std::fill_n(into, width, 0.0f);
    x_rows.for_runs(chunk, [&](std::int64_t at, std::int64_t column, std::int64_t n) {
      float widened[kRowBlock];
      const float* values = as_floats(x + at, widened, n);
      for (std::int64_t i = 0; i < n; ++i) into[column + i] += values[i];
    });
    x_rows.fold(into);
  });
  for (std::int64_t c = 0; c < x_rows.channels(); ++c) {
    double sum = 0;
    for (std::int64_t chunk = 0; chunk < x_rows.num_chunks(); ++chunk) {
      sum += double(partial[chunk * width + c]);
    }
    sums[c] = float(sum);
  }
}

}  // namespace tr::cpu
