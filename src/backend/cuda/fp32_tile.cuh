// SPDX-License-Identifier: Apache-2.0
#pragma once

// One block's tile of a product C[m, n] = sum over k of A(m, k) B(k, n) of fp32 matrices on the
// tensor cores: each operand is the sum of two TF32 numbers, off by at most 2^-23 of it, and
// three of their four products are added, the least ones first. The tensor cores cut their sums;
// every kDepth terms these are added to sums in fp32, in order along k, so that a tile's bytes
// depend on nothing but the operands. Needs compute capability 8.0.

#include "backend/cuda/mma_tile.cuh"

namespace tr::cuda::fp32 {

constexpr int kQuad = 4;  // floats of 16 bytes

/// 32 x 32 results a warp.
template <int kWarpsM_, int kWarpsN_>
struct Shape {
  static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
  static constexpr int kM = 32 * kWarpsM, kN = 32 * kWarpsN, kDepth = 32, kStages = 3;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
};

/// One operand's tile in shared memory, as it lies in global memory. Rows are padded so that the
/// threads of a warp read from 32 banks.
template <Along kAlong_, int kOuter, int kDepth>
struct SharedTile {
  static constexpr Along kAlong = kAlong_;
  static constexpr bool kRowsAlongK = kAlong == Along::K;
  static constexpr int kLines = kRowsAlongK ? kOuter : kDepth;
  static constexpr int kLength = kRowsAlongK ? kDepth : kOuter;
  static constexpr int kPitch = kLength + (kRowsAlongK ? 4 : 8);
  static constexpr int kElements = kLines * kPitch;

  __device__ static float at(const float* tile, int outer, int k) {
    return tile[kRowsAlongK ? outer * kPitch + k : k * kPitch + outer];
  }
};

/// An operand with what lies outside of it.
struct Source {
  const float* data;
  std::int64_t ld;
  int num_outer, num_k;
  bool aligned;  // rows begin at multiples of 16 bytes

  __device__ Source(const Operand<float>& from, int num_outer, int num_k)
      : data(from.data),
        ld(from.ld),
        num_outer(num_outer),
        num_k(num_k),
        aligned(ld % kQuad == 0 && reinterpret_cast<std::uintptr_t>(data) % 16 == 0) {}
};

/// Begins to load the tile at (outer, k); zeros outside of the operand.
template <typename Tile, int kThreads>
__device__ void load(float* tile, const Source& from, int outer, int k) {
  constexpr int kQuads = Tile::kLength / kQuad;
  const int first_line = Tile::kRowsAlongK ? outer : k, first = Tile::kRowsAlongK ? k : outer;
  const int num_lines = Tile::kRowsAlongK ? from.num_outer : from.num_k;
  const int length = Tile::kRowsAlongK ? from.num_k : from.num_outer;
#pragma unroll
  for (int q = int(threadIdx.x); q < Tile::kLines * kQuads; q += kThreads) {
    const int line = q / kQuads, at = q % kQuads * kQuad;
    float* to = tile + line * Tile::kPitch + at;
    const int left = first_line + line < num_lines ? length - (first + at) : 0;
    const int count = left < 0 ? 0 : left > kQuad ? kQuad : left;
    const float* source =
        count > 0 ? from.data + (first_line + line) * from.ld + first + at : from.data;
    if (from.aligned) {
      mma::copy_async_part(to, source, count * int(sizeof(float)));
      continue;
    }
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const bool valid = i < count;
      mma::copy_async_word(to + i, valid ? source + i : from.data, valid);
    }
  }
}

/// A number as two of TF32.
__device__ inline void split(float x, std::uint32_t& high, std::uint32_t& low) {
  high = mma::to_tf32(x);
  low = mma::to_tf32(x - __uint_as_float(high));
}

template <typename Shape, Along kAlongA, Along kAlongB>
struct Tile {
  using A = SharedTile<kAlongA, Shape::kM, Shape::kDepth>;
  using B = SharedTile<kAlongB, Shape::kN, Shape::kDepth>;
  static constexpr int kStageElements = A::kElements + B::kElements;
  static constexpr int kSharedBytes = Shape::kStages * kStageElements * int(sizeof(float));
  using Sums = float[2][4][4];  // mma tiles of 16 x 8

  /// Adds a stage's products to `sums`.
  __device__ static void multiply(const float* tile_a, const float* tile_b, Sums& sums) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int row = warp / Shape::kWarpsN * 32 + lane / 4,
              column = warp % Shape::kWarpsN * 32 + lane / 4;
    Sums part = {};
#pragma unroll
    for (int depth = 0; depth < Shape::kDepth; depth += 8) {
      const int k = depth + lane % 4;
      std::uint32_t a[2][2][4], b[2][4][2];  // high and low
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          split(A::at(tile_a, row + i * 16 + e % 2 * 8, k + e / 2 * 4), a[0][i][e], a[1][i][e]);
        }
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          split(B::at(tile_b, column + j * 8, k + e * 4), b[0][j][e], b[1][j][e]);
        }
      }
#pragma unroll
      for (int term = 0; term < 3; ++term) {  // low high, high low, high high
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j)
            mma::multiply_tf32(part[i][j], a[term == 0][i], b[term == 1][j]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] += part[i][j][e];
      }
    }
  }

  /// The tile whose first result is (m, n), by all threads of a block: store(row, column, sum) for
  /// each of its results that exists.
  template <typename Store>
  __device__ static void run(float* shared, const Source& a, const Source& b, int m, int n,
                             Store&& store) {
    Sums sums = {};
    const auto load_stage = [&](int step) {
      float* stage = shared + step % Shape::kStages * kStageElements;
      load<A, Shape::kThreads>(stage, a, m, step * Shape::kDepth);
      load<B, Shape::kThreads>(stage + A::kElements, b, n, step * Shape::kDepth);
    };
    const int steps = (a.num_k + Shape::kDepth - 1) / Shape::kDepth;
    for (int s = 0; s < Shape::kStages - 1; ++s) {
      if (s < steps) load_stage(s);
      mma::commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
      mma::wait_for_copies<Shape::kStages - 2>();
      __syncthreads();
      if (step + Shape::kStages - 1 < steps) load_stage(step + Shape::kStages - 1);
      mma::commit_copies();
      const float* stage = shared + step % Shape::kStages * kStageElements;
      multiply(stage, stage + A::kElements, sums);
    }
    mma::wait_for_copies<0>();
    __syncthreads();  // the next tile may be loaded
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int row = m + warp / Shape::kWarpsN * 32 + lane / 4;
    const int column = n + warp % Shape::kWarpsN * 32 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = row + i * 16 + e / 2 * 8, c = column + j * 8 + e % 2;
          if (r < a.num_outer && c < b.num_outer) store(r, c, sums[i][j][e]);
        }
      }
    }
  }
};

/// Shared memory of a block, whatever the operands' directions.
template <typename Shape>
constexpr int kSharedBytes = Tile<Shape, Along::K, Along::K>::kSharedBytes >
                                     Tile<Shape, Along::OUTER, Along::OUTER>::kSharedBytes
                                 ? Tile<Shape, Along::K, Along::K>::kSharedBytes
                                 : Tile<Shape, Along::OUTER, Along::OUTER>::kSharedBytes;

/// A product of two matrices [m, k] and [k, n], either of them perhaps stored as its transpose.
struct Product {
  Operand<float> a, b;
  int m, n, k;
  bool transpose_a, transpose_b;
};

template <typename Shape, typename Store>
__device__ void run_tile(float* shared, const Product& p, int m, int n, Store&& store) {
  const Source a(p.a, p.m, p.k), b(p.b, p.n, p.k);
  if (p.transpose_a) {
    if (p.transpose_b) {
      Tile<Shape, Along::OUTER, Along::K>::run(shared, a, b, m, n, store);
    } else {
      Tile<Shape, Along::OUTER, Along::OUTER>::run(shared, a, b, m, n, store);
    }
  } else if (p.transpose_b) {
    Tile<Shape, Along::K, Along::K>::run(shared, a, b, m, n, store);
  } else {
    Tile<Shape, Along::K, Along::OUTER>::run(shared, a, b, m, n, store);
  }
}

}  // namespace tr::cuda::fp32
