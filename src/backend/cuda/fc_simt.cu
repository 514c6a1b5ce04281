// SPDX-License-Identifier: Apache-2.0
// A product for every shape and floating dtype: tiles of 64 x 64 results a block, 4 x 4 a thread,
// each result summed in fp32 along k from first to last. Not fast; it takes what cuBLASLt does not.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/fc_product.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda::simt {
namespace {

constexpr int kTile = 64;   // results of a block, each way
constexpr int kDepth = 16;  // terms of k in shared memory at a time
constexpr int kEach = 4;    // results of a thread, each way
constexpr int kSide = kTile / kEach;
constexpr int kThreads = kSide * kSide;
constexpr std::int64_t kMostAtOnce = 65535;

/// A matrix read through strides: element (i, k) lies at i * across + k * along.
template <typename T>
struct Operand {
  const T* data;
  std::int64_t across, along;  // one of them is 1
};

/// Tile of kTile x kDepth elements from (first, depth) on as floats, zero outside [size, k].
/// Threads that are neighbours read neighbours.
template <typename T>
__device__ void load_tile(float (&tile)[kDepth][kTile + 1], const Operand<T>& from,
                          std::int64_t first, std::int64_t size, std::int64_t depth,
                          std::int64_t k) {
  const bool along_is_dense = from.along == 1;
  for (int e = int(threadIdx.x); e < kTile * kDepth; e += kThreads) {
    const int i = along_is_dense ? e / kDepth : e % kTile;
    const int d = along_is_dense ? e % kDepth : e / kTile;
    const bool inside = first + i < size && depth + d < k;
    tile[d][i] =
        inside ? to_float(from.data[(first + i) * from.across + (depth + d) * from.along]) : 0.0f;
  }
}

/// From product to product of a batch.
struct Strides {
  std::int64_t a, b, c;
};

/// What becomes of a sum: alpha sum + beta addend, which may be missing.
template <typename Result>
struct Blend {
  float alpha, beta;
  const Result* addend;

  __device__ float operator()(float sum, std::int64_t at) const {
    return addend == nullptr ? alpha * sum : alpha * sum + beta * to_float(addend[at]);
  }
};

template <typename T, typename Result>
__global__ __launch_bounds__(kThreads) void product_kernel(Operand<T> a, Operand<T> b, Result* c,
                                                           std::int64_t m, std::int64_t n,
                                                           std::int64_t k, Strides strides,
                                                           Blend<Result> blend) {
  a.data += blockIdx.y * strides.a;
  b.data += blockIdx.y * strides.b;
  c += blockIdx.y * strides.c;
  if (blend.addend != nullptr) blend.addend += blockIdx.y * strides.c;
  __shared__ float a_tile[kDepth][kTile + 1], b_tile[kDepth][kTile + 1];
  const std::int64_t across = ceil_div<std::int64_t>(n, kTile);
  const std::int64_t row = std::int64_t(blockIdx.x) / across * kTile;
  const std::int64_t column = std::int64_t(blockIdx.x) % across * kTile;
  const int my_row = int(threadIdx.x) / kSide, my_column = int(threadIdx.x) % kSide;
  float sums[kEach][kEach] = {};
  for (std::int64_t depth = 0; depth < k; depth += kDepth) {
    load_tile(a_tile, a, row, m, depth, k);
    load_tile(b_tile, b, column, n, depth, k);
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          sums[i][j] += a_tile[d][my_row + i * kSide] * b_tile[d][my_column + j * kSide];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const std::int64_t r = row + my_row + i * kSide;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const std::int64_t at = column + my_column + j * kSide;
      if (r < m && at < n) c[r * n + at] = from_float<Result>(blend(sums[i][j], r * n + at));
    }
  }
}

class SimtProduct final : public Product {
 public:
  explicit SimtProduct(const ProductShape& shape) : shape_(shape) {}

  void run(const KernelArgs& args, const ProductOperands& operands) const override {
    if (shape_.result_elements() == 0) return;
    dispatch_float(shape_.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if (shape_.result == DType::FP32) {
        run_typed<T>(args, operands, static_cast<float*>(operands.c));
      } else {
        TR_ASSERT(shape_.result == shape_.dtype);
        run_typed<T>(args, operands, static_cast<T*>(operands.c));
      }
    });
  }

 private:
  template <typename T, typename Result>
  void run_typed(const KernelArgs& args, const ProductOperands& operands, Result* c) const {
    const std::int64_t m = shape_.m, n = shape_.n, k = shape_.k;
    const bool transpose_a = shape_.transpose_a, transpose_b = shape_.transpose_b;
    const Operand<T> a{static_cast<const T*>(operands.a), transpose_a ? 1 : k, transpose_a ? m : 1};
    const Operand<T> b{static_cast<const T*>(operands.b), transpose_b ? k : 1, transpose_b ? 1 : n};
    const auto* addend = shape_.beta == 0 ? nullptr : static_cast<const Result*>(operands.addend);
    LaunchShape shape;
    shape.grid.x = unsigned(ceil_div<std::int64_t>(m, kTile) * ceil_div<std::int64_t>(n, kTile));
    shape.block.x = kThreads;
    // A grid has at most kMostAtOnce products.
    for (std::int64_t first = 0; first < shape_.batch; first += kMostAtOnce) {
      shape.grid.y = unsigned(std::min(kMostAtOnce, shape_.batch - first));
      Operand<T> left = a, right = b;
      left.data += first * shape_.a_stride;
      right.data += first * shape_.b_stride;
      launch(args, shape, product_kernel<T, Result>, left, right, c + first * m * n, m, n, k,
             Strides{shape_.a_stride, shape_.b_stride, m * n},
             Blend<Result>{shape_.alpha, shape_.beta,
                           addend == nullptr ? nullptr : addend + first * m * n});
    }
  }

  ProductShape shape_;
};

std::string refuse(const ProductShape& shape) {
  const std::int64_t tiles =
      ceil_div<std::int64_t>(shape.m, kTile) * ceil_div<std::int64_t>(shape.n, kTile);
  if (tiles <= INT32_MAX) return "";
  return "the result has " + std::to_string(tiles) + " tiles, expected at most " +
         std::to_string(INT32_MAX);
}

std::int64_t no_workspace(const ProductShape&) { return 0; }

std::unique_ptr<Product> make(const ProductShape& shape, Fused fused, std::string_view algorithm) {
  if (fused != Fused::NONE || !algorithm.empty()) return nullptr;
  return std::make_unique<SimtProduct>(shape);
}

}  // namespace
}  // namespace tr::cuda::simt

namespace tr::cuda {

const ProductEngine& simt_engine() {
  static const ProductEngine engine{"simt", 0, simt::refuse, simt::no_workspace, simt::make};
  return engine;
}

}  // namespace tr::cuda
