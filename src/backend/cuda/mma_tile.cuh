// SPDX-License-Identifier: Apache-2.0
#pragma once

// One block's tile of a matrix product C[m, n] = sum over k of A(m, k) B(k, n) on the tensor cores,
// 16-bit operands, FP32 sums. Operands come through shared memory in stages that are loaded ahead;
// sums run over k in order, so that a tile's bytes depend on nothing but the operands.
// Needs compute capability 8.0 (mma.m16n8k16, cp.async).

#include <cstdint>

#include "backend/cuda/mma_instructions.cuh"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda {

/// Which index of an operand runs along its rows in memory.
enum class Along { K, OUTER };  // OUTER: m of A, n of B

/// An operand in global memory: element (outer, k) is data[outer * ld + k] if it runs along K, else
/// data[k * ld + outer].
template <typename T>
struct Operand {
  const T* data;
  std::int64_t ld;
};

namespace mma {

/// One operand's tile in shared memory, stored as it lies in global memory.
template <typename T, Along kAlong_, int kOuter, int kDepth, int kThreads>
struct SharedTile {
  static constexpr Along kAlong = kAlong_;
  static constexpr int kLines = kAlong == Along::K ? kOuter : kDepth;
  static constexpr int kLength = kAlong == Along::K ? kDepth : kOuter;
  static constexpr int kPitch = kLength + kPadding;
  static constexpr int kElements = kLines * kPitch;
  static constexpr int kRowChunks = kLength / kChunk;
  static constexpr int kChunks = kLines * kRowChunks;
  static constexpr int kPerThread = (kChunks + kThreads - 1) / kThreads;

  __device__ static const T* at(const T* tile, int outer, int k) {
    return kAlong == Along::K ? tile + outer * kPitch + k : tile + k * kPitch + outer;
  }
};

/// Loads an operand's tiles one after the other along k. What a thread copies lies at the same
/// places of every tile, so that addresses are made once.
template <typename T, typename Tile, Along kAlong, int kThreads>
class TileLoader {
 public:
  /// Tiles begin at `outer`; elements outside [0, num_outer) x [0, num_k) are zero. `aligned`:
  /// every row begins at a multiple of 16 bytes and is a multiple of 8 elements long.
  __device__ TileLoader(const Operand<T>& operand, int outer, int num_outer, int num_k,
                        bool aligned)
      : data_(operand.data),
        ld_(operand.ld),
        num_outer_(num_outer),
        num_k_(num_k),
        aligned_(aligned) {
#pragma unroll
    for (int i = 0; i < Tile::kPerThread; ++i) {
      const int chunk = int(threadIdx.x) + i * kThreads;
      const int line = chunk / Tile::kRowChunks, at = chunk % Tile::kRowChunks * kChunk;
      const int o = outer + (kAlong == Along::K ? line : at);
      const int k = kAlong == Along::K ? at : line;
      to_[i] = line * Tile::kPitch + at;
      outer_[i] = o;
      // A chunk that is never read gets a k that no operand has.
      k_[i] = chunk < Tile::kChunks && o < num_outer ? k : num_k;
      from_[i] = k_[i] < num_k ? (kAlong == Along::K ? o * ld_ + k : k * ld_ + o) : 0;
    }
  }

  /// Begins to load the tile at `k` into `tile`.
  __device__ void load(T* tile, int k) const {
    const std::int64_t step = kAlong == Along::K ? k : k * ld_;
#pragma unroll
    for (int i = 0; i < Tile::kPerThread; ++i) {
      if (Tile::kChunks % kThreads != 0 && int(threadIdx.x) + i * kThreads >= Tile::kChunks) break;
      const bool valid = k + k_[i] < num_k_;
      if (aligned_) {
        copy_async(tile + to_[i], data_ + (valid ? from_[i] + step : 0), valid);
      } else {
        copy_elements(tile + to_[i], from_[i] + step, k + k_[i], outer_[i], valid);
      }
    }
  }

 private:
  __device__ void copy_elements(T* to, std::int64_t from, int k, int outer, bool valid) const {
#pragma unroll
    for (int e = 0; e < kChunk; ++e) {
      const bool inside = kAlong == Along::K ? k + e < num_k_ : outer + e < num_outer_;
      to[e] = valid && inside ? data_[from + e] : T(0.0f);
    }
  }

  const T* data_;
  std::int64_t ld_;
  int num_outer_, num_k_;
  bool aligned_;
  std::int64_t from_[Tile::kPerThread];
  int to_[Tile::kPerThread], k_[Tile::kPerThread], outer_[Tile::kPerThread];
};

}  // namespace mma

/// Sizes of a tile and of the warps' parts of it. Groups of warps along K each multiply a part of
/// every stage's depth: a small tile has few independent sums, and more warps hide what one of them
/// waits for.
template <int kM_, int kN_, int kDepth_, int kWarpsM_, int kWarpsN_, int kWarpsK_, int kStages_>
struct TileShape {
  static constexpr int kM = kM_, kN = kN_, kDepth = kDepth_;
  static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_, kWarpsK = kWarpsK_;
  static constexpr int kStages = kStages_;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN * kWarpsK;
  static constexpr int kWarpM = kM / kWarpsM, kWarpN = kN / kWarpsN;
  static constexpr int kRows = kWarpM / 16, kColumns = kWarpN / 8;  // mma tiles of a warp
  static constexpr int kPitch = kN + 4;                             // of the sums in shared memory
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kDepth % (16 * kWarpsK) == 0);
};

/// What the warps of a block do with a stage: A and B say where an operand's elements lie in shared
/// memory. Whoever loads them, a tile's sums have the same bytes.
template <typename T, typename Shape, typename A, typename B>
struct TileMath {
  using Sums = float[Shape::kRows][Shape::kColumns][4];
  /// Shared memory that the sums take.
  static constexpr int kSumBytes = Shape::kWarpsK * Shape::kM * Shape::kPitch * int(sizeof(float));

  /// Leaves the block's sums in shared memory, for sum() to read. mma's element e of tile (i, j) is
  /// row i * 16 + lane / 4 + (e / 2) * 8, column j * 8 + lane % 4 * 2 + e % 2 of the warp's part.
  __device__ static void leave(const Sums& sums, float* to) {
    const WarpPlace warp;
    const int lane = int(threadIdx.x) % 32;
    to += (warp.group * Shape::kM + warp.m + lane / 4) * Shape::kPitch + warp.n + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < Shape::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < Shape::kColumns; ++j) {
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          *reinterpret_cast<Vector<float, 2>*>(to + (i * 16 + e * 4) * Shape::kPitch +
                                               j * 8) = {{sums[i][j][e], sums[i][j][e + 1]}};
        }
      }
    }
  }

  /// Four neighbours of the tile's sums from (row, column) on; column is a multiple of 4. The
  /// groups' parts are added in their order.
  __device__ static Vector<float, 4> sum(const void* shared, int row, int column) {
    const float* at = static_cast<const float*>(shared) + row * Shape::kPitch + column;
    auto sum = *reinterpret_cast<const Vector<float, 4>*>(at);
#pragma unroll
    for (int group = 1; group < Shape::kWarpsK; ++group) {
      const auto part =
          *reinterpret_cast<const Vector<float, 4>*>(at + group * Shape::kM * Shape::kPitch);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum.v[i] += part.v[i];
    }
    return sum;
  }

  /// The parts of a warp, 16 of k at a time. ldmatrix hands each thread what mma wants of it: lanes
  /// 8i .. 8i + 7 give the rows of the i-th of four 8x8 matrices.
  __device__ static void multiply(const T* tile_a, const T* tile_b, Sums& sums) {
    const WarpPlace warp;
    const int lane = int(threadIdx.x) % 32, r = lane % 8, matrix = lane / 8;
#pragma unroll
    for (int part = 0; part < Shape::kDepth / (16 * Shape::kWarpsK); ++part) {
      const int k = (part * Shape::kWarpsK + warp.group) * 16;
      std::uint32_t fa[Shape::kRows][4], fb[Shape::kColumns / 2][4];
#pragma unroll
      for (int i = 0; i < Shape::kRows; ++i) {
        const int row = warp.m + i * 16;
        // Matrices: (m, k), (m + 8, k), (m, k + 8), (m + 8, k + 8).
        if constexpr (A::kAlong == Along::K) {
          mma::load_matrices<false>(fa[i],
                                    A::at(tile_a, row + matrix % 2 * 8 + r, k + matrix / 2 * 8));
        } else {
          mma::load_matrices<true>(fa[i],
                                   A::at(tile_a, row + matrix % 2 * 8, k + matrix / 2 * 8 + r));
        }
      }
#pragma unroll
      for (int j = 0; j < Shape::kColumns / 2; ++j) {
        const int column = warp.n + j * 16;
        // Matrices: (n, k), (n, k + 8), (n + 8, k), (n + 8, k + 8).
        if constexpr (B::kAlong == Along::K) {
          mma::load_matrices<false>(fb[j],
                                    B::at(tile_b, column + matrix / 2 * 8 + r, k + matrix % 2 * 8));
        } else {
          mma::load_matrices<true>(fb[j],
                                   B::at(tile_b, column + matrix / 2 * 8, k + matrix % 2 * 8 + r));
        }
      }
#pragma unroll
      for (int i = 0; i < Shape::kRows; ++i) {
#pragma unroll
        for (int j = 0; j < Shape::kColumns; ++j) {
          mma::multiply(sums[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1], T{});
        }
      }
    }
  }

 private:
  struct WarpPlace {
    int m, n, group;
    __device__ WarpPlace() {
      const int warp = int(threadIdx.x) / 32;
      n = warp % Shape::kWarpsN * Shape::kWarpN;
      m = warp / Shape::kWarpsN % Shape::kWarpsM * Shape::kWarpM;
      group = warp / (Shape::kWarpsN * Shape::kWarpsM);
    }
  };
};

template <typename T, typename Shape, Along kAlongA, Along kAlongB>
struct TileProduct {
  using A = mma::SharedTile<T, kAlongA, Shape::kM, Shape::kDepth, Shape::kThreads>;
  using B = mma::SharedTile<T, kAlongB, Shape::kN, Shape::kDepth, Shape::kThreads>;
  using Math = TileMath<T, Shape, A, B>;
  using LoaderA = mma::TileLoader<T, A, kAlongA, Shape::kThreads>;
  using LoaderB = mma::TileLoader<T, B, kAlongB, Shape::kThreads>;
  static constexpr int kStageElements = A::kElements + B::kElements;
  static constexpr int kStageBytes = kStageElements * int(sizeof(T));
  static constexpr int kSharedBytes = Shape::kStages * kStageBytes > Math::kSumBytes
                                          ? Shape::kStages* kStageBytes
                                          : Math::kSumBytes;

  Operand<T> a, b;
  int num_m, num_n, num_k;
  bool aligned_a, aligned_b;

  /// The tile whose first element is (m, n): leaves its sums in the stages' memory, for Math::sum()
  /// to read, when all threads are through. `each_stage(A's tile, valid k)` sees the loaded parts
  /// of A one after the other.
  template <typename EachStage>
  __device__ void run(T* shared, int m, int n, EachStage each_stage) const {
    float sums[Shape::kRows][Shape::kColumns][4] = {};
    const LoaderA loader_a(a, m, num_m, num_k, aligned_a);
    const LoaderB loader_b(b, n, num_n, num_k, aligned_b);
    const auto load = [&](int step) {
      T* stage = shared + step % Shape::kStages * kStageElements;
      loader_a.load(stage, step * Shape::kDepth);
      loader_b.load(stage + A::kElements, step * Shape::kDepth);
    };
    const int steps = (num_k + Shape::kDepth - 1) / Shape::kDepth;
    for (int s = 0; s < Shape::kStages - 1; ++s) {
      if (s < steps) load(s);
      mma::commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
      mma::wait_for_copies<Shape::kStages - 2>();
      __syncthreads();
      if (step + Shape::kStages - 1 < steps) load(step + Shape::kStages - 1);
      mma::commit_copies();
      const T* stage = shared + step % Shape::kStages * kStageElements;
      each_stage(stage, min(Shape::kDepth, num_k - step * Shape::kDepth));
      Math::multiply(stage, stage + A::kElements, sums);
    }
    mma::wait_for_copies<0>();
    __syncthreads();
    Math::leave(sums, reinterpret_cast<float*>(shared));
    __syncthreads();
  }
};

}  // namespace tr::cuda
