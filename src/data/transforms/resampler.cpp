// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/resampler.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace tr::data {
namespace {

constexpr int kTapGroup = 4;        // taps that are added at once: weights are filled up with zeros
constexpr int kMostQuadGroups = 2;  // of across_quads(); more would read far behind the row

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

/// Weights of across_quads(): of every four results (more than there are: zeros) and each group of
/// taps four vectors, for results 0 | 1 and 2 | 3 the first two taps and the others.
struct QuadTable {
  int num_quads = 0, groups = 0;
  std::int32_t* first = nullptr;    // [4 num_quads]
  std::int16_t* weights = nullptr;  // [num_quads][groups][2][2][16]
};

std::size_t quad_count(int to) { return std::size_t(to + 3) / 4; }
std::size_t quad_bytes(int to) {
  return aligned64(4 * quad_count(to) * sizeof(std::int32_t)) +
         quad_count(to) * kMostQuadGroups * 64 * sizeof(std::int16_t);
}

/// No quads: an axis of results of more taps.
QuadTable make_quads(const AxisTable& table, Carver& scratch) {
  const int most = *std::max_element(table.count, table.count + table.to);
  QuadTable quads{0, whole_groups(most) / kTapGroup};
  if (quads.groups > kMostQuadGroups) return quads;
  const std::size_t count = quad_count(table.to), groups = std::size_t(quads.groups);
  quads.num_quads = int(count);
  quads.first = scratch.take<std::int32_t>(4 * count);
  quads.weights = scratch.take<std::int16_t>(count * groups * 64);
  for (std::size_t i = 0; i < 4 * count; ++i) {
    const bool there = i < std::size_t(table.to);
    quads.first[i] = table.first[there ? i : std::size_t(table.to - 1)];
    for (std::size_t g = 0; g < groups; ++g) {
      std::int16_t* at = quads.weights + ((i / 4 * groups + g) * 4 + i % 4 / 2 * 2) * 16;
      for (std::size_t k = 0; k < kTapGroup; ++k) {
        const std::int16_t weight = there ? table.of(int(i))[g * kTapGroup + k] : std::int16_t(0);
        // The same two weights for each of three channels, and a fourth that nobody looks at.
        for (std::size_t c = 0; c < 4; ++c) at[k / 2 * 16 + i % 2 * 8 + 2 * c + k % 2] = weight;
      }
    }
  }
  return quads;
}

__m256i load_two(const std::uint8_t* low, const std::uint8_t* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
}

/// A row of RGB pixels, four results at a time. Writes up to 13 bytes behind the row, reads up to
/// 28 behind the source's.
template <int kGroups>
void across_quads(const std::uint8_t* row, const QuadTable& table, int bits, std::uint8_t* out) {
  // Of four pixels 0, 1 and 2, 3 as words r r' g g' b b'.
  const __m256i near =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                       0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  const __m256i far =
      _mm256_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1,  //
                       6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  // Results 0, 2 | 1, 3 with a byte behind each to four of three bytes.
  const __m256i packed =
      _mm256_setr_epi8(0, 1, 2, -1, -1, -1, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1,  //
                       -1, -1, -1, 0, 1, 2, -1, -1, -1, 4, 5, 6, -1, -1, -1, -1);
  const __m256i half = _mm256_set1_epi32(1 << bits >> 1);
  const __m128i shift = _mm_cvtsi32_si128(bits);
  const auto* weights = reinterpret_cast<const __m256i*>(table.weights);
  const std::int32_t* first = table.first;
  for (int q = 0; q < table.num_quads; ++q, first += 4, out += 12) {
    __m256i two[2] = {half, half};
    for (int g = 0; g < kGroups; ++g) {
      for (int i = 0; i < 2; ++i, weights += 2) {
        const __m256i pixels = load_two(row + 3 * (first[2 * i] + kTapGroup * g),
                                        row + 3 * (first[2 * i + 1] + kTapGroup * g));
        two[i] = _mm256_add_epi32(two[i], _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, near),
                                                            _mm256_loadu_si256(weights)));
        two[i] = _mm256_add_epi32(two[i], _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, far),
                                                            _mm256_loadu_si256(weights + 1)));
      }
    }
    const __m256i words =
        _mm256_packs_epi32(_mm256_sra_epi32(two[0], shift), _mm256_sra_epi32(two[1], shift));
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(words, words), packed);
    const __m128i four =
        _mm_or_si128(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), four);
  }
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

/// The way across an image: one of three kernels.
struct AcrossPass {
  int channels = 0;
  AxisTable table;
  QuadTable quads;

  void run(const std::uint8_t* row, std::uint8_t* out) const {
    if (quads.num_quads > 0) {
      return quads.groups == 1 ? across_quads<1>(row, quads, table.bits, out)
                               : across_quads<2>(row, quads, table.bits, out);
    }
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
};

/// Rows of the results across, as many as one result row needs.
struct RowRing {
  std::uint8_t* rows = nullptr;
  std::size_t stride = 0;
  int capacity = 0;

  std::uint8_t* row(int y) const { return rows + std::size_t(y % capacity) * stride; }
};

/// Sums of two rows' bytes times a pair of weights, 8 each, added to four vectors.
void add_rows(const std::uint8_t* upper, const std::uint8_t* lower, __m256i factors,
              __m256i (&sums)[4]) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(upper));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lower));
  const __m256i zero = _mm256_setzero_si256();
  const __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
  const __m256i pairs[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                            _mm256_unpacklo_epi8(high, zero), _mm256_unpackhi_epi8(high, zero)};
  for (int i = 0; i < 4; ++i) {
    sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs[i], factors));
  }
}

/// One row of the result from those that its taps want: 32 bytes at a time, two rows at a time.
/// Writes up to 31 bytes behind the row.
void down(const std::uint8_t* const* rows, const AxisTable& table, int y, int bytes,
          std::uint8_t* out) {
  const std::int16_t* weights = table.of(y);
  const int count = table.count[y], precision = table.bits;
  const __m256i half = _mm256_set1_epi32(1 << precision >> 1);
  const __m128i shift = _mm_cvtsi32_si128(precision);
  for (int x = 0; x < bytes; x += 32) {
    __m256i sums[4] = {half, half, half, half};
    for (int k = 0; k < count; k += 2) {
      std::int32_t two;
      std::memcpy(&two, weights + k, sizeof two);
      add_rows(rows[k] + x, rows[k + 1 < count ? k + 1 : k] + x, _mm256_set1_epi32(two), sums);
    }
    for (__m256i& sum : sums) sum = _mm256_sra_epi32(sum, shift);
    // Both kinds of packing work by halves of 128 bits, as the unpacking did.
    const __m256i pixels = _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]),
                                               _mm256_packs_epi32(sums[2], sums[3]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + x), pixels);
  }
}

pixel::ResampleAxis widest_axis(int from, int to, ResampleKind kind) {
  return pixel::make_resample_axis({from, 0, 8 * std::int64_t(from)}, to, kind.filter,
                                   kind.antialias);
}

std::size_t ring_stride(int width, int channels) {
  return aligned64(std::size_t(width) * std::size_t(channels) + 32);
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
  return table_bytes(out.width, taps_x) + table_bytes(out.height, taps_y) + quad_bytes(out.width) +
         aligned64(std::size_t(taps_y) * sizeof(std::uint8_t*)) +
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
  AcrossPass across{shape.channels, make_table(axis_x, carver), {}};
  if (shape.channels == 3) across.quads = make_quads(across.table, carver);
  const AxisTable table_y = make_table(axis_y, carver);
  RowRing ring{nullptr, ring_stride(out.width, shape.channels), axis_y.max_taps};
  ring.rows = carver.take<std::uint8_t>(ring.stride * std::size_t(ring.capacity));
  auto** rows = carver.take<const std::uint8_t*>(std::size_t(ring.capacity));
  const int bytes = out.width * shape.channels;
  int ready = 0;  // rows above are in the ring or needed no more
  for (int y = 0; y < out.height; ++y, dst += bytes) {
    const int first = table_y.first[y], count = table_y.count[y];
    for (ready = std::max(ready, first); ready < first + count; ++ready) {
      across.run(part.image.row(ready), ring.row(ready));
    }
    for (int k = 0; k < count; ++k) rows[k] = ring.row(first + k);
    down(rows, table_y, y, bytes, dst);
  }
}

}  // namespace tr::data
