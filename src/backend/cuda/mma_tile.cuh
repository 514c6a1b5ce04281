// SPDX-License-Identifier: Apache-2.0
#pragma once

// One block's tile of a matrix product C[m, n] = sum over k of A(m, k) B(k, n) on the tensor cores,
// 16-bit operands, FP32 sums. Operands come through shared memory in stages that are loaded ahead;
// sums run over k in order, so that a tile's bytes depend on nothing but the operands.
// Needs compute capability 8.0 (mma.m16n8k16, cp.async).

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

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

constexpr int kChunk = 8;    // elements of 16 bytes
constexpr int kPadding = 8;  // a row more of 16 bytes: eight rows lie in different banks

__device__ inline std::uint32_t shared_address(const void* p) {
  return std::uint32_t(__cvta_generic_to_shared(p));
}

/// 16 bytes from global to shared memory; zeros if not `valid`.
__device__ inline void copy_async(void* to, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 16 : 0));
#endif
}
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;");
#endif
}
template <int kPending>
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending));
#endif
}

template <bool kTransposed>
__device__ inline void load_matrices(std::uint32_t (&r)[4], const void* address) {
  const std::uint32_t at = shared_address(address);
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
  }
}

__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1, __half) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1, __nv_bfloat16) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// One operand's tile in shared memory, stored as it lies in global memory.
template <typename T, Along kAlong, int kOuter, int kDepth, int kThreads>
struct SharedTile {
  static constexpr int kLines = kAlong == Along::K ? kOuter : kDepth;
  static constexpr int kLength = kAlong == Along::K ? kDepth : kOuter;
  static constexpr int kPitch = kLength + kPadding;
  static constexpr int kElements = kLines * kPitch;
  static constexpr int kChunks = kLines * kLength / kChunk;

  /// Begins to load the tile at (outer, k); elements outside [0, num_outer) x [0, num_k) are zero.
  /// `aligned`: every row begins at a multiple of 16 bytes and is a multiple of 8 elements long.
  __device__ static void load(T* tile, const Operand<T>& from, int outer, int k, int num_outer,
                              int num_k, bool aligned) {
    const int line0 = kAlong == Along::K ? outer : k, at0 = kAlong == Along::K ? k : outer;
    const int lines = kAlong == Along::K ? num_outer : num_k;
    const int length = kAlong == Along::K ? num_k : num_outer;
    for (int chunk = int(threadIdx.x); chunk < kChunks; chunk += kThreads) {
      const int line = chunk / (kLength / kChunk), at = chunk % (kLength / kChunk) * kChunk;
      T* to = tile + line * kPitch + at;
      const bool valid = line0 + line < lines && at0 + at < length;
      const T* row = from.data + std::int64_t(valid ? line0 + line : 0) * from.ld;
      if (aligned) {
        copy_async(to, row + (valid ? at0 + at : 0), valid);
        continue;
      }
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        to[i] = valid && at0 + at + i < length ? row[at0 + at + i] : T(0.0f);
      }
    }
  }
  __device__ static const T* at(const T* tile, int outer, int k) {
    return kAlong == Along::K ? tile + outer * kPitch + k : tile + k * kPitch + outer;
  }
};

}  // namespace mma

/// Sizes of a tile and of the warps' parts of it.
template <int kM_, int kN_, int kDepth_, int kWarpsM_, int kWarpsN_, int kStages_>
struct TileShape {
  static constexpr int kM = kM_, kN = kN_, kDepth = kDepth_;
  static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_, kStages = kStages_;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kWarpM = kM / kWarpsM, kWarpN = kN / kWarpsN;
  static constexpr int kRows = kWarpM / 16, kColumns = kWarpN / 8;  // mma tiles of a warp
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kDepth % 16 == 0);
};

/// A tile's sums as a thread holds them: sums[i][j][e] belongs to row(i, e), column(j, e) of the
/// tile.
template <typename Shape>
struct TileSums {
  float v[Shape::kRows][Shape::kColumns][4];

  __device__ static int row(int i, int e) {
    const int warp = int(threadIdx.x) / 32 / Shape::kWarpsN, lane = int(threadIdx.x) % 32;
    return warp * Shape::kWarpM + i * 16 + lane / 4 + (e / 2) * 8;
  }
  /// Elements e and e + 1 (e even) are neighbours.
  __device__ static int column(int j, int e) {
    const int warp = int(threadIdx.x) / 32 % Shape::kWarpsN, lane = int(threadIdx.x) % 32;
    return warp * Shape::kWarpN + j * 8 + lane % 4 * 2 + e % 2;
  }
};

template <typename T, typename Shape, Along kAlongA, Along kAlongB>
struct TileProduct {
  using A = mma::SharedTile<T, kAlongA, Shape::kM, Shape::kDepth, Shape::kThreads>;
  using B = mma::SharedTile<T, kAlongB, Shape::kN, Shape::kDepth, Shape::kThreads>;
  static constexpr int kStageElements = A::kElements + B::kElements;
  static constexpr int kSharedBytes = Shape::kStages * kStageElements * int(sizeof(T));

  Operand<T> a, b;
  int num_m, num_n, num_k;
  bool aligned_a, aligned_b;

  /// Sums of the tile whose first element is (m, n). `each_stage(A's tile, valid k)` sees the
  /// loaded parts of A one after the other. The shared memory is free again when it returns.
  template <typename EachStage>
  __device__ void run(T* shared, int m, int n, TileSums<Shape>& sums, EachStage each_stage) const {
#pragma unroll
    for (int i = 0; i < Shape::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < Shape::kColumns; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums.v[i][j][e] = 0.0f;
      }
    }
    const int steps = (num_k + Shape::kDepth - 1) / Shape::kDepth;
    for (int s = 0; s < Shape::kStages - 1; ++s) {
      if (s < steps) load(shared, s, m, n);
      mma::commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
      mma::wait_for_copies<Shape::kStages - 2>();
      __syncthreads();
      if (step + Shape::kStages - 1 < steps) load(shared, step + Shape::kStages - 1, m, n);
      mma::commit_copies();
      const T* stage = shared + step % Shape::kStages * kStageElements;
      each_stage(stage, min(Shape::kDepth, num_k - step * Shape::kDepth));
      multiply(stage, sums);
    }
    mma::wait_for_copies<0>();
    __syncthreads();
  }

 private:
  __device__ void load(T* shared, int step, int m, int n) const {
    T* stage = shared + step % Shape::kStages * kStageElements;
    const int k = step * Shape::kDepth;
    A::load(stage, a, m, k, num_m, num_k, aligned_a);
    B::load(stage + A::kElements, b, n, k, num_n, num_k, aligned_b);
  }

  /// The parts of a warp, 16 of k at a time. ldmatrix hands each thread what mma wants of it: lanes
  /// 8i .. 8i + 7 give the rows of the i-th of four 8x8 matrices.
  __device__ void multiply(const T* stage, TileSums<Shape>& sums) const {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int warp_m = warp / Shape::kWarpsN * Shape::kWarpM;
    const int warp_n = warp % Shape::kWarpsN * Shape::kWarpN;
    const int r = lane % 8, matrix = lane / 8;
    const T* tile_b = stage + A::kElements;
#pragma unroll
    for (int k = 0; k < Shape::kDepth; k += 16) {
      std::uint32_t fa[Shape::kRows][4], fb[Shape::kColumns / 2][4];
#pragma unroll
      for (int i = 0; i < Shape::kRows; ++i) {
        const int row = warp_m + i * 16;
        // Matrices: (m, k), (m + 8, k), (m, k + 8), (m + 8, k + 8).
        if constexpr (kAlongA == Along::K) {
          mma::load_matrices<false>(fa[i],
                                    A::at(stage, row + matrix % 2 * 8 + r, k + matrix / 2 * 8));
        } else {
          mma::load_matrices<true>(fa[i],
                                   A::at(stage, row + matrix % 2 * 8, k + matrix / 2 * 8 + r));
        }
      }
#pragma unroll
      for (int j = 0; j < Shape::kColumns / 2; ++j) {
        const int column = warp_n + j * 16;
        // Matrices: (n, k), (n, k + 8), (n + 8, k), (n + 8, k + 8).
        if constexpr (kAlongB == Along::K) {
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
          mma::multiply(sums.v[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1], T{});
        }
      }
    }
  }
};

}  // namespace tr::cuda
