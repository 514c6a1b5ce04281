// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/pixel/scale.h"
#include "data/transforms/blend_avx2.h"
#include "data/transforms/copy_row.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

constexpr int kTile = 32;  // columns at once: fixed, so that the loops are whole vectors

int whole_tiles(int width) { return (width + kTile - 1) / kTile * kTile; }

/// Taps of every column, the pixels that they meet in a row of the source, two blended rows of the
/// source and a row of the result, each [whole tiles].
struct Workspace {
  std::int32_t* index;
  std::uint16_t* fraction;
  std::uint16_t* pair;     // left pixel below, right one above
  std::uint16_t* rows[2];  // blend_row() of source row held[k], by result column
  int held[2] = {-1, -1};
  std::uint8_t* line;

  Workspace(std::byte* bytes, int columns) {
    index = reinterpret_cast<std::int32_t*>(bytes);
    fraction = reinterpret_cast<std::uint16_t*>(index + columns);
    pair = fraction + columns;
    rows[0] = pair + columns;
    rows[1] = rows[0] + columns;
    line = reinterpret_cast<std::uint8_t*>(rows[1] + columns);
  }
  static std::size_t num_bytes(int columns) {
    return std::size_t(columns) * (sizeof(std::int32_t) + 4 * sizeof(std::uint16_t) + 1);
  }
};

void fill_taps(const pixel::ScaleAxis& axis, int columns, int channels, Workspace& work) {
  for (int x = 0; x < columns; ++x) {
    const pixel::ScaleTap tap = pixel::scale_tap(axis, x);
    work.index[x] = tap.index * channels;
    work.fraction[x] = std::uint16_t(tap.fraction);
  }
}

__m256i load16(const std::uint16_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

/// Pairs of neighbours at the taps. Reads one pixel past the row's last one, with weight 0.
void gather_pairs(const std::uint8_t* line, int columns, int channels, const Workspace& work) {
  if (channels == 1) {
    for (int x = 0; x < columns; ++x)
      std::memcpy(work.pair + x, line + work.index[x], sizeof *work.pair);
    return;
  }
  for (int x = 0; x < columns; ++x) {
    const std::uint8_t* at = line + work.index[x];
    work.pair[x] = std::uint16_t(at[0] | at[channels] << 8);
  }
}

/// The same for a row of one channel that fits a register: taps are looked up in it.
class ShortRowTaps {
 public:
  static bool suits(const ImageShape& in) { return in.channels == 1 && in.width <= kTile; }

  explicit ShortRowTaps(const Workspace& work) {
    alignas(32) std::uint8_t controls[4][kTile];
    for (int side = 0; side < 2; ++side) {
      for (int x = 0; x < kTile; ++x) {
        const int at = work.index[x] + side;  // 32, one past the row, has weight 0
        controls[2 * side][x] = std::uint8_t(at < 16 ? at : kNothing);
        controls[2 * side + 1][x] = std::uint8_t(at >= 16 && at < 32 ? at - 16 : kNothing);
      }
    }
    for (int i = 0; i < 4; ++i)
      controls_[i] = _mm256_load_si256(reinterpret_cast<const __m256i*>(controls[i]));
  }

  /// Reads 32 bytes from the row's first pixel on.
  void gather(const std::uint8_t* line, std::uint16_t* pair) const {
    const auto half = [line](int i) {
      return _mm256_broadcastsi128_si256(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(line + 16 * i)));
    };
    const __m256i low = half(0), high = half(1);
    const auto side = [&](int s) {
      return _mm256_or_si256(_mm256_shuffle_epi8(low, controls_[2 * s]),
                             _mm256_shuffle_epi8(high, controls_[2 * s + 1]));
    };
    const __m256i left = side(0), right = side(1);
    const __m256i first = _mm256_unpacklo_epi8(left, right);   // pixels 0-7, 16-23
    const __m256i second = _mm256_unpackhi_epi8(left, right);  // 8-15, 24-31
    auto* out = reinterpret_cast<__m256i*>(pair);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(first, second, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(first, second, 0x31));
  }

 private:
  static constexpr std::uint8_t kNothing = 0x80;  // a shuffle's control that gives 0

  __m256i controls_[4];  // of the left pixels in the row's low and high half, of the right ones
};

/// blend_row() of the pairs: below 65536, so that products and sum may wrap.
void blend_pairs(int columns, const Workspace& work, std::uint16_t* out) {
  const __m256i low = _mm256_set1_epi16(0xff), whole = _mm256_set1_epi16(1 << pixel::kWeightBits);
  for (int x = 0; x < columns; x += 16) {
    const __m256i pair = load16(work.pair + x), fraction = load16(work.fraction + x);
    const __m256i left =
        _mm256_mullo_epi16(_mm256_and_si256(pair, low), _mm256_sub_epi16(whole, fraction));
    const __m256i right = _mm256_mullo_epi16(_mm256_srli_epi16(pair, 8), fraction);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + x), _mm256_add_epi16(left, right));
  }
}

/// blend_column() of two blended rows, 32 columns.
__m256i blend_rows(const std::uint16_t* top, const std::uint16_t* bottom, std::int32_t fraction) {
  const __m256i bias = _mm256_set1_epi16(std::int16_t(-32768));
  const __m256i weights = weight_pairs(_mm256_set1_epi32(fraction));
  const auto sixteen = [&](int x) {
    const __m256i a = _mm256_xor_si256(load16(top + x), bias);
    const __m256i b = _mm256_xor_si256(load16(bottom + x), bias);
    return _mm256_packus_epi32(blend_columns(_mm256_unpacklo_epi16(a, b), weights),
                               blend_columns(_mm256_unpackhi_epi16(a, b), weights));
  };
  return _mm256_permute4x64_epi64(_mm256_packus_epi16(sixteen(0), sixteen(16)), 0xd8);
}

/// One image, scaled.
class Scaling {
 public:
  explicit Scaling(const ImageRef& src)
      : src_(src), shape_(src.shape), columns_(whole_tiles(src.shape.width)) {}

  void apply(pixel::ScaledSize size, std::uint8_t* dst, std::byte* scratch) const {
    const Axes axes{pixel::make_scale_axis(shape_.width, size.width),
                    pixel::make_scale_axis(shape_.height, size.height)};
    Workspace work(scratch, columns_);
    fill_taps(axes.x, columns_, shape_.channels, work);
    if (ShortRowTaps::suits(shape_)) {
      const ShortRowTaps taps(work);
      scale_plane(0, axes, work, dst,
                  [&](const std::uint8_t* line) { taps.gather(line, work.pair); });
      return;
    }
    for (int c = 0; c < shape_.channels; ++c) {
      scale_plane(c, axes, work, dst + c, [&](const std::uint8_t* line) {
        gather_pairs(line, columns_, shape_.channels, work);
      });
    }
  }

 private:
  struct Axes {
    pixel::ScaleAxis x, y;
  };

  template <typename Gather>
  void scale_plane(int channel, const Axes& axes, Workspace& work, std::uint8_t* dst,
                   Gather gather) const {
    work.held[0] = work.held[1] = -1;
    // Source row `row` blended at the columns' taps; kept from the line before where possible.
    const auto blended = [&](int row) {
      const int k = row & 1;  // two rows in use are neighbours: one is even, one odd
      if (work.held[k] != row) {
        gather(src_.row(row) + channel);
        blend_pairs(columns_, work, work.rows[k]);
        work.held[k] = row;
      }
      return static_cast<const std::uint16_t*>(work.rows[k]);
    };
    for (int y = 0; y < shape_.height; ++y, dst += shape_.row_bytes()) {
      if (y < axes.y.margin || y >= axes.y.margin + axes.y.to) {
        std::memset(work.line, 0, std::size_t(shape_.width));
      } else {
        const pixel::ScaleTap tap = pixel::scale_tap(axes.y, y);
        const std::uint16_t* top = blended(tap.index);
        // Below the last row the weight is 0.
        const std::uint16_t* bottom = blended(std::min(tap.index + 1, shape_.height - 1));
        for (int x = 0; x < columns_; x += kTile) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(work.line + x),
                              blend_rows(top + x, bottom + x, tap.fraction));
        }
        clear_margins(axes.x, work.line);
      }
      store_line(work.line, dst);
    }
  }

  void clear_margins(const pixel::ScaleAxis& axis, std::uint8_t* line) const {
    if (axis.margin > 0) std::memset(line, 0, std::size_t(axis.margin));
    const int end = axis.margin + axis.to;
    if (end < shape_.width) std::memset(line + end, 0, std::size_t(shape_.width - end));
  }

  void store_line(const std::uint8_t* line, std::uint8_t* dst) const {
    if (shape_.channels == 1) {
      copy_row(dst, line, std::size_t(shape_.width));
    } else {
      for (int x = 0; x < shape_.width; ++x) dst[x * shape_.channels] = line[x];
    }
  }

  const ImageRef& src_;
  const ImageShape shape_;
  const int columns_;
};

class RandomScaleStep final : public PixelStep {
 public:
  explicit RandomScaleStep(const RandomScale& scale) : min_(scale.min), max_(scale.max) {}

  std::size_t scratch_bytes(ImageShape in) const override {
    return Workspace::num_bytes(whole_tiles(in.width));
  }
  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte* scratch) const override {
    Scaling(src).apply(
        pixel::draw_scaled_size(draws, src.shape.height, src.shape.width, min_, max_), dst,
        scratch);
  }

  std::string describe(const pixel::StepDraws& draws, ImageShape in) const override {
    const auto size = pixel::draw_scaled_size(draws, in.height, in.width, min_, max_);
    return fmt::format("{}x{}", size.height, size.width);
  }

 private:
  float min_, max_;
};

}  // namespace

TransformRule rule_of(const RandomScale& t) {
  const std::string text = fmt::format("RandomScale({}, {})", t.min, t.max);
  return {.text = text,
          .check =
              [=] {
                TR_CHECK(t.min > 0 && t.min <= t.max && t.max <= 16,
                         "{}: the ratios are [{}, {}], must satisfy 0 < min <= max <= 16", text,
                         t.min, t.max);
              },
          .make_step = [=] { return std::make_unique<RandomScaleStep>(t); }};
}

}  // namespace tr::data
