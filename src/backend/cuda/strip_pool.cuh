// SPDX-License-Identifier: Apache-2.0
#pragma once

// Batch norm, rectifier and max pooling by the windows of block_pool.cuh: windows one below the
// other share a row, so that little is read or normalised twice.

#include <type_traits>

#include "backend/cuda/block_pool.cuh"
#include "backend/cuda/relu_mask.cuh"

namespace tr::cuda {

/// The largest of a row of three cells, behind the rectifier, in each of N channels, and how far
/// behind the row's last cell it lies.
template <typename T, int N>
struct RowLargest {
  float value[N] = {};
  unsigned before[N] = {};

  __device__ void take(const Normalisation<N>& norm, const Vector<T, N>& cell, unsigned column) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float y = to_float(from_float<T>(norm(j, to_float(cell.v[j]))));
      keep(j, y, kWindowSide - 1 - column);
    }
  }
  /// y where it is larger than 0 and what is there, the first of equal ones; NaN wins.
  __device__ void keep(int j, float y, unsigned behind) {
    if (y <= 0 || (y <= value[j]) || (value[j] != value[j] && y == y)) return;
    value[j] = y;
    before[j] = behind;
  }
  /// The largest of a window's rows, and its cell.
  __device__ static void finish(const RowLargest (&rows)[kWindowSide], Vector<T, N>& values,
                                Vector<std::uint8_t, N>& cells) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      RowLargest<T, 1> best;
#pragma unroll
      for (int r = 0; r < kWindowSide; ++r) {
        best.keep(0, rows[r].value[j], rows[r].before[j] + kWindowSide * (kWindowSide - 1 - r));
      }
      values.v[j] = from_float<T>(best.value[0]);
      const bool none = best.value[0] <= 0;
      cells.v[j] = none ? kNoCell : std::uint8_t(kWindowSide * kWindowSide - 1 - best.before[0]);
    }
  }
};

/// The same of 8 channels of 16 bits in one number each: the value in the upper half, the order in
/// the lower. What a rectifier lets through has no sign and orders as its bits do, NaN last.
template <typename T>
struct PackedRowLargest {
  std::uint32_t keys[8] = {};

  __device__ void take(const Normalisation<8>& norm, const Vector<T, 8>& cell, unsigned column) {
    const std::uint32_t behind = kWindowSide - 1 - column;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      const std::uint32_t pair =
          rounded_pair(norm(j, to_float(cell.v[j])), norm(j + 1, to_float(cell.v[j + 1])), T());
      const std::uint32_t y = pair & ~not_positive(pair, T());
      keys[j] = max(keys[j], y << 16 | behind);
      keys[j + 1] = max(keys[j + 1], (y & 0xffff0000u) | behind);
    }
  }
  __device__ static void finish(const PackedRowLargest (&rows)[kWindowSide], Vector<T, 8>& values,
                                Vector<std::uint8_t, 8>& cells) {
    // A cell is 15 less the order, whose bits are then those of the cell turned over.
    constexpr std::uint32_t kTurned = 0x0f, kFirst = kTurned - (kWindowSide - 1);
    static_assert((0xffu ^ kTurned) == kNoCell);
    auto* out = reinterpret_cast<std::uint32_t*>(&values);
    auto* bytes = reinterpret_cast<std::uint32_t*>(&cells);
    std::uint32_t best[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      best[j] = 0xffffu;  // nothing was let through
#pragma unroll
      for (int r = 0; r < kWindowSide; ++r) {
        best[j] = max(best[j], rows[r].keys[j] + (kFirst - kWindowSide * r));
      }
    }
#pragma unroll
    for (int j = 0; j < 8; j += 2) out[j / 2] = __byte_perm(best[j], best[j + 1], 0x7632);
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      const std::uint32_t low = __byte_perm(best[j], best[j + 1], 0x0040);
      const std::uint32_t high = __byte_perm(best[j + 2], best[j + 3], 0x0040);
      bytes[j / 4] = __byte_perm(low, high, 0x5410) ^ (kTurned * 0x01010101u);
    }
  }
};

/// A thread makes kDown windows of one column of y, one below the other.
template <typename T>
struct StripForward {
  static constexpr int kInFlight = 1, kDown = 4;
  const T* x;
  T* y;
  std::uint8_t* index;
  NormalisationArrays arrays;
  PixelMap in, out, strips;

  template <int N>
  using Row = std::conditional_t<sizeof(T) == 2 && N == 8, PackedRowLargest<T>, RowLargest<T, N>>;

  template <int N>
  __device__ Normalisation<N> channel(std::int64_t c) const {
    return arrays.load<N>(c);
  }
  template <int N>
  __device__ Pixel load(const Place& at) const {
    return pixel_of(std::uint32_t(at.row), strips);
  }
  template <int N>
  __device__ void finish(const Normalisation<N>& norm, const Pixel& strip, const Place& at) const {
    const int first = strip.h * kDown, last = min(first + kDown, int(out.height));
    Row<N> rows[kWindowSide];
    rows[2] = largest(norm, strip, load_row<N>(strip, 2 * first - 1, at.c));
    std::int64_t to = out.at(strip.n, first, strip.w, at.c);
    for (int oh = first; oh < last; ++oh) {
      const Cells<N> middle = load_row<N>(strip, 2 * oh, at.c);
      const Cells<N> below = load_row<N>(strip, 2 * oh + 1, at.c);
      rows[0] = rows[2];
      rows[1] = largest(norm, strip, middle);
      rows[2] = largest(norm, strip, below);
      Vector<T, N> values;
      Vector<std::uint8_t, N> cells;
      Row<N>::finish(rows, values, cells);
      store(y + to, values);
      store(index + to, cells);
      to += std::int64_t(out.width) * out.channels;
    }
  }

 private:
  /// A row of three cells.
  template <int N>
  struct Cells {
    Vector<T, N> v[kWindowSide];
    bool exist;
  };

  __device__ bool inside(const Pixel& strip, int column) const {
    return unsigned(2 * strip.w - 1 + column) < in.width;
  }
  template <int N>
  __device__ Cells<N> load_row(const Pixel& strip, int h, std::int64_t c) const {
    Cells<N> cells;
    cells.exist = unsigned(h) < in.height;
    if (!cells.exist) return cells;
    const T* from = x + in.at(strip.n, h, 2 * strip.w - 1, c);
#pragma unroll
    for (int s = 0; s < kWindowSide; ++s) {
      if (inside(strip, s)) cells.v[s] = cuda::load<N>(from + s * in.channels);
    }
    return cells;
  }
  template <int N>
  __device__ Row<N> largest(const Normalisation<N>& norm, const Pixel& strip,
                            const Cells<N>& cells) const {
    Row<N> row;
    if (!cells.exist) return row;
#pragma unroll
    for (int s = 0; s < kWindowSide; ++s) {
      if (inside(strip, s)) row.take(norm, cells.v[s], unsigned(s));
    }
    return row;
  }
};

}  // namespace tr::cuda
