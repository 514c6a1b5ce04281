// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "core/pixel/scale.h"
#include "data/transforms/pixel_step.h"

namespace tr::data {
namespace {

constexpr int kTile = 32;  // columns at once: fixed, so that the loops are whole vectors

int whole_tiles(int width) { return (width + kTile - 1) / kTile * kTile; }

/// Taps of every column, two blended rows of the source and a row of the result, each [whole
/// tiles].
struct Workspace {
  std::int32_t *index, *fraction;
  std::int32_t* rows[2];  // blend_row() of source row held[k], by result column
  int held[2] = {-1, -1};
  std::uint8_t* line;

  Workspace(std::byte* bytes, int columns) {
    index = reinterpret_cast<std::int32_t*>(bytes);
    fraction = index + columns;
    rows[0] = fraction + columns;
    rows[1] = rows[0] + columns;
    line = reinterpret_cast<std::uint8_t*>(rows[1] + columns);
  }
  static std::size_t num_bytes(int columns) {
    return std::size_t(columns) * (4 * sizeof(std::int32_t) + 1);
  }
};

void fill_taps(const pixel::ScaleAxis& axis, int columns, int channels, Workspace& work) {
  for (int x = 0; x < columns; ++x) {
    const pixel::ScaleTap tap = pixel::scale_tap(axis, x);
    work.index[x] = tap.index * channels;
    work.fraction[x] = tap.fraction;
  }
}

/// Blends source row `line` at the taps. Reads one pixel past the row's last one, with weight 0.
void blend_line(const std::uint8_t* line, int columns, int channels, const Workspace& work,
                std::int32_t* out) {
  for (int x = 0; x < columns; x += kTile) {
    std::int32_t left[kTile], right[kTile];
    for (int i = 0; i < kTile; ++i) {
      const std::uint8_t* at = line + work.index[x + i];
      left[i] = at[0];
      right[i] = at[channels];
    }
    for (int i = 0; i < kTile; ++i) {
      out[x + i] = pixel::blend_row(left[i], right[i], work.fraction[x + i]);
    }
  }
}

class RandomScaleStep final : public PixelStep {
 public:
  RandomScaleStep(const RandomScale& scale, ImageShape in)
      : PixelStep(in, in, Workspace::num_bytes(whole_tiles(in.width))),
        min_(scale.min),
        max_(scale.max),
        columns_(whole_tiles(in.width)) {}

  void apply(const std::uint8_t* src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte* scratch) const override {
    const auto size = pixel::draw_scaled_size(draws, in().height, in().width, min_, max_);
    const auto axis_x = pixel::make_scale_axis(in().width, size.width);
    const auto axis_y = pixel::make_scale_axis(in().height, size.height);
    Workspace work(scratch, columns_);
    fill_taps(axis_x, columns_, in().channels, work);
    for (int c = 0; c < in().channels; ++c) {
      work.held[0] = work.held[1] = -1;
      for (int y = 0; y < in().height; ++y) {
        const bool inside = y >= axis_y.margin && y < axis_y.margin + axis_y.to;
        if (inside) {
          scale_line(src + c, axis_y, y, work);
          clear_margins(axis_x, work.line);
        } else {
          std::memset(work.line, 0, std::size_t(in().width));
        }
        store_line(work.line, dst + std::size_t(y) * out().row_bytes() + c);
      }
    }
  }

 private:
  /// Source row `row` blended at the columns' taps; kept from the line before where possible.
  const std::int32_t* blended(const std::uint8_t* src, int row, Workspace& work) const {
    const int k = row & 1;  // two rows in use are neighbours: one is even, one odd
    if (work.held[k] != row) {
      blend_line(src + std::size_t(row) * in().row_bytes(), columns_, in().channels, work,
                 work.rows[k]);
      work.held[k] = row;
    }
    return work.rows[k];
  }

  void scale_line(const std::uint8_t* src, const pixel::ScaleAxis& axis, int y,
                  Workspace& work) const {
    const pixel::ScaleTap tap = pixel::scale_tap(axis, y);
    const std::int32_t* top = blended(src, tap.index, work);
    const std::int32_t* bottom = blended(src, std::min(tap.index + 1, in().height - 1),
                                         work);  // weight 0 below the last row
    for (int x = 0; x < columns_; x += kTile) {
      for (int i = x; i < x + kTile; ++i) {
        work.line[i] = std::uint8_t(pixel::blend_column(top[i], bottom[i], tap.fraction));
      }
    }
  }

  void clear_margins(const pixel::ScaleAxis& axis, std::uint8_t* line) const {
    if (axis.margin > 0) std::memset(line, 0, std::size_t(axis.margin));
    const int end = axis.margin + axis.to;
    if (end < in().width) std::memset(line + end, 0, std::size_t(in().width - end));
  }

  void store_line(const std::uint8_t* line, std::uint8_t* dst) const {
    if (in().channels == 1) {
      std::memcpy(dst, line, std::size_t(in().width));
    } else {
      for (int x = 0; x < in().width; ++x) dst[x * in().channels] = line[x];
    }
  }

  float min_, max_;
  int columns_;
};

}  // namespace

std::unique_ptr<PixelStep> make_step(const RandomScale& scale, ImageShape in) {
  return std::make_unique<RandomScaleStep>(scale, in);
}

}  // namespace tr::data
