// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/resampler.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace tr::data {
namespace {

constexpr int kTapGroup = 4;  // taps that are added at once: weights are filled up with zeros

std::size_t aligned64(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
int whole_groups(int taps) { return (taps + kTapGroup - 1) / kTapGroup * kTapGroup; }

/// Taps of every result of an axis: 16-bit weights, [to][stride], zeros behind the last tap.
struct AxisTable {
  std::int32_t to = 0, stride = 0, bits = 0;
  std::int32_t *first = nullptr, *count = nullptr;
  std::int16_t* weights = nullptr;

  const std::int16_t* of(int i) const { return weights + std::size_t(i) * std::size_t(stride); }
};

/// Bytes of a table and of the double weights it is made from.
std::size_t table_bytes(int to, int max_taps) {
  const std::size_t stride = std::size_t(whole_groups(max_taps));
  return 2 * aligned64(std::size_t(to) * sizeof(std::int32_t)) +
         aligned64(std::size_t(to) * stride * sizeof(std::int16_t)) +
         aligned64(std::size_t(to) * std::size_t(max_taps) * sizeof(double));
}

/// Hands out pieces of scratch.
class Carver {
 public:
  explicit Carver(std::byte* at) : at_(at) {}
  template <typename T>
  T* take(std::size_t count) {
    auto* piece = reinterpret_cast<T*>(at_);
    at_ += aligned64(count * sizeof(T));
    return piece;
  }

 private:
  std::byte* at_;
};

AxisTable make_table(const pixel::ResampleAxis& axis, Carver& scratch) {
  AxisTable table{axis.to, whole_groups(axis.max_taps)};
  const std::size_t to = std::size_t(axis.to), taps = std::size_t(axis.max_taps);
  const std::size_t stride = std::size_t(table.stride);
  table.first = scratch.take<std::int32_t>(to);
  table.count = scratch.take<std::int32_t>(to);
  table.weights = scratch.take<std::int16_t>(to * stride);
  auto* exact = scratch.take<double>(to * taps);
  double largest = 0;
  for (std::size_t i = 0; i < to; ++i) {
    const auto found = pixel::resample_taps(axis, std::int32_t(i), exact + i * taps);
    table.first[i] = found.first;
    table.count[i] = found.count;
    for (int k = 0; k < found.count; ++k) {
      largest = std::max(largest, exact[i * taps + std::size_t(k)]);
    }
  }
  table.bits = pixel::resample_precision(largest);
  std::memset(table.weights, 0, to * stride * sizeof(std::int16_t));
  for (std::size_t i = 0; i < to; ++i) {
    for (std::size_t k = 0; k < std::size_t(table.count[i]); ++k) {
      table.weights[i * stride + k] = pixel::resample_weight(exact[i * taps + k], table.bits);
    }
  }
  return table;
}

/// Sums of the three channels, rounded to pixels: three bytes and one that means nothing.
std::int32_t packed_pixels(__m128i sums, int bits) {
  const __m128i shifted = _mm_sra_epi32(sums, _mm_cvtsi32_si128(bits));
  const __m128i words = _mm_packs_epi32(shifted, shifted);
  return _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
}

/// A row of RGB pixels, four taps at a time. Writes one byte behind the row, reads up to 25 behind
/// the source's.
void across_rgb(const std::uint8_t* row, const AxisTable& table, std::uint8_t* out) {
  // Pixels 0, 1 (lower half) and 2, 3 (upper half) as words r r' g g' b b'.
  const __m256i spread =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                       6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i pairs = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m128i half = _mm_set1_epi32(1 << table.bits >> 1);
  for (int i = 0; i < table.to; ++i, out += 3) {
    const std::uint8_t* at = row + 3 * std::ptrdiff_t(table.first[i]);
    const std::int16_t* weights = table.of(i);
    __m256i sums = _mm256_setzero_si256();
    for (int k = 0; k < table.count[i]; k += kTapGroup, at += 3 * kTapGroup) {
      const __m128i pixels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
      const __m128i four = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights + k));
      const __m256i words = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(pixels), spread);
      const __m256i factors = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(four), pairs);
      sums = _mm256_add_epi32(sums, _mm256_madd_epi16(words, factors));
    }
    const __m128i both =
        _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    const std::int32_t pixel = packed_pixels(_mm_add_epi32(both, half), table.bits);
    std::memcpy(out, &pixel, sizeof pixel);
  }
}

void across(const std::uint8_t* row, int channels, const AxisTable& table, std::uint8_t* out) {
  if (channels == 3) return across_rgb(row, table, out);
  for (int i = 0; i < table.to; ++i) {
    const std::uint8_t* at = row + std::ptrdiff_t(table.first[i]) * channels;
    const std::int16_t* weights = table.of(i);
    for (int c = 0; c < channels; ++c) {
      std::int32_t sum = 0;
      for (int k = 0; k < table.count[i]; ++k) sum += weights[k] * at[k * channels + c];
      *out++ = std::uint8_t(pixel::resample_round(sum, table.bits));
    }
  }
}

/// Rows of the result of across(), as many as one result row needs.
struct RowRing {
  std::uint8_t* rows = nullptr;
  std::size_t stride = 0;
  int capacity = 0;

  std::uint8_t* row(int y) const { return rows + std::size_t(y % capacity) * stride; }
};

/// One row of the result: 16 bytes at a time, two rows of the ring at a time. Writes up to 15 bytes
/// behind the row.
void down(const RowRing& ring, const AxisTable& table, int y, int bytes, std::uint8_t* out) {
  const std::int16_t* weights = table.of(y);
  const int first = table.first[y], count = table.count[y];
  const __m256i half = _mm256_set1_epi32(1 << table.bits >> 1);
  const __m128i shift = _mm_cvtsi32_si128(table.bits);
  for (int x = 0; x < bytes; x += 16) {
    __m256i low = half, high = half;
    for (int k = 0; k < count; k += 2) {
      std::int32_t two;
      std::memcpy(&two, weights + k, sizeof two);
      const __m256i factors = _mm256_set1_epi32(two);
      const std::uint8_t* upper = ring.row(first + k) + x;
      const std::uint8_t* lower = ring.row(first + (k + 1 < count ? k + 1 : k)) + x;
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(upper));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lower));
      low = _mm256_add_epi32(
          low, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)), factors));
      high = _mm256_add_epi32(
          high, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)), factors));
    }
    low = _mm256_sra_epi32(low, shift);
    high = _mm256_sra_epi32(high, shift);
    // Packing works by halves of 128 bits: put them in order afterwards.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
    const __m128i pixels =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x), pixels);
  }
}

pixel::ResampleAxis widest_axis(int from, int to, ResampleKind kind) {
  return pixel::make_resample_axis({from, 0, 8 * std::int64_t(from)}, to, kind.filter,
                                   kind.antialias);
}

std::size_t ring_stride(int width, int channels) {
  return aligned64(std::size_t(width) * std::size_t(channels) + 16);
}

}  // namespace

ResampleKind resample_kind(Interpolation interpolation, bool antialias) {
  return {interpolation == Interpolation::BICUBIC ? pixel::ResampleFilter::CUBIC
                                                  : pixel::ResampleFilter::TRIANGLE,
          antialias};
}

std::size_t resample_scratch_bytes(ImageShape in, ImageShape out, ResampleKind kind) {
  const int taps_x = widest_axis(in.width, out.width, kind).max_taps;
  const int taps_y = widest_axis(in.height, out.height, kind).max_taps;
  return table_bytes(out.width, taps_x) + table_bytes(out.height, taps_y) +
         std::size_t(taps_y) * ring_stride(out.width, in.channels);
}

void resample(const DecodedCrop& part, ImageShape out, ResampleKind kind, std::uint8_t* dst,
              std::byte* scratch) {
  const ImageShape& shape = part.image.shape;
  const auto axis_x = pixel::make_resample_axis(
      {shape.width, part.left_eighths, part.width_eighths}, out.width, kind.filter, kind.antialias);
  const auto axis_y =
      pixel::make_resample_axis({shape.height, part.top_eighths, part.height_eighths}, out.height,
                                kind.filter, kind.antialias);
  Carver carver(scratch);
  const AxisTable table_x = make_table(axis_x, carver);
  const AxisTable table_y = make_table(axis_y, carver);
  RowRing ring{nullptr, ring_stride(out.width, shape.channels), axis_y.max_taps};
  ring.rows = carver.take<std::uint8_t>(ring.stride * std::size_t(ring.capacity));
  const int bytes = out.width * shape.channels;
  int ready = 0;  // rows above are in the ring or needed no more
  for (int y = 0; y < out.height; ++y, dst += bytes) {
    const int end = table_y.first[y] + table_y.count[y];
    for (ready = std::max(ready, int(table_y.first[y])); ready < end; ++ready) {
      across(part.image.row(ready), shape.channels, table_x, ring.row(ready));
    }
    down(ring, table_y, y, bytes, dst);
  }
}

}  // namespace tr::data
