// SPDX-License-Identifier: Apache-2.0
// fc_dweight of at most 64 outputs: dW [O, K] = dy^T x. The other sides, batch and inputs, are
// long, so that time is what x takes on its way through memory: it is read once, and no warp waits
// for a neighbour; dy is small and stays in the caches. The rows are cut into parts, by the shape
// alone, whose sums a second kernel adds in their order. 16-bit operands go through the tensor
// cores (fc_thin.cuh), fp32 ones are multiplied in fp32.
#include "backend/cuda/fc_thin.cuh"
#include "backend/cuda/mma_instructions.cuh"

namespace tr::cuda {
namespace {

using thin::kFloatColumns;
using thin::kFloatRows;

constexpr std::int64_t kBlocks = 396;      // about: three for each multiprocessor of an H200
constexpr std::int64_t kLeastOfPart = 64;  // rows

/// Where a part's sums go: dW [O, K] and db [O] of each part, one behind the other.
struct PartSums {
  float* dweight;
  float* dbias;  // null: not wanted
};

/// What a warp knows of 16 rows before it multiplies: dy's terms, and of x eight neighbours in each
/// of a thread's four rows.
template <int kTiles>
struct RowTile {
  std::uint32_t a[kTiles][4];
  uint4 eight[4];
};

/// A warp's sums over a part's rows, dW of its columns and db. kWide: rows of x begin at multiples
/// of 16 bytes, which is known without a look.
template <typename T, int kTiles, bool kWide>
class PartWalk {
 public:
  /// The part ends with the last row of `dy` and `x`.
  __device__ PartWalk(const thin::Matrix& dy, const thin::Matrix& x, std::int64_t strip,
                      bool sums_dy)
      : dy_(dy),
        x_(x),
        column_(strip + std::int64_t(threadIdx.x % 32 / 4) * 8),
        group_(int(threadIdx.x) % 32 / 4),
        member_(int(threadIdx.x) % 4),
        sums_dy_(sums_dy) {}

  /// Asks for the tile from `row` on; zeros where it lies outside.
  __device__ void ask(RowTile<kTiles>& tile, std::int64_t row) const {
    // Column `group` of the warp's mma tile j is column 8 group + j of the strip.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t r = row + 2 * member_ + i % 2 + i / 2 * 8;
      if constexpr (kWide) {
        tile.eight[i] = {};
        if (r < x_.rows && column_ < x_.columns) {
          tile.eight[i] = *reinterpret_cast<const uint4*>(x_.data + r * x_.columns + column_);
        }
      } else {
        tile.eight[i] = x_.eight(r, column_);
      }
    }
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      thin::load_terms_down(tile.a[m], dy_, row, m * thin::kTile, group_, member_);
    }
  }

  __device__ void add(const RowTile<kTiles>& tile) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4 && sums_dy_; ++i) {
        bias_[m][i % 2] += thin::value_of(thin::half_of(tile.a[m][i], 0), T{}) +
                           thin::value_of(thin::half_of(tile.a[m][i], 1), T{});
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        mma::multiply(sums_[m][j], tile.a[m], thin::pair_of(tile.eight[0], tile.eight[1], j),
                      thin::pair_of(tile.eight[2], tile.eight[3], j), T{});
      }
    }
  }

  __device__ void store(float* dweight, float* dbias) const {
    const auto num_outputs = int(dy_.columns);
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      store_weights(dweight, m, num_outputs);
      if (!sums_dy_) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = bias_[m][half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        const int output = m * thin::kTile + group_ + half * 8;
        if (member_ == 0 && output < num_outputs) dbias[output] = sum;
      }
    }
  }

 private:
  __device__ void store_weights(float* dweight, int m, int num_outputs) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int output = m * thin::kTile + group_ + c / 2 * 8;
      const std::int64_t column = column_ + (2 * member_ + c % 2 - group_) * 8;
      if (output >= num_outputs) continue;
      float* to = dweight + output * x_.columns + column;
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        if (kWide && column < x_.columns) {
          *reinterpret_cast<float4*>(to + j) = make_float4(sums_[m][j][c], sums_[m][j + 1][c],
                                                           sums_[m][j + 2][c], sums_[m][j + 3][c]);
          continue;
        }
#pragma unroll
        for (int e = j; e < j + 4; ++e) {
          if (column + e < x_.columns) to[e] = sums_[m][e][c];
        }
      }
    }
  }

  const thin::Matrix &dy_, &x_;
  std::int64_t column_;  // of the thread's eights
  int group_, member_;
  bool sums_dy_;
  float sums_[kTiles][8][4] = {};
  float bias_[kTiles][2] = {};
};

template <typename T, int kTiles, bool kWide>
__global__ __launch_bounds__(thin::kThreads) void dweight_kernel(thin::Matrix dy, thin::Matrix x,
                                                                 std::int64_t rows_of_part,
                                                                 PartSums out) {
  const std::int64_t strip = std::int64_t(blockIdx.x) * thin::kBlockColumns +
                             std::int64_t(threadIdx.x / 32) * thin::kWarpColumns;
  const bool sums_dy = out.dbias != nullptr && blockIdx.x == 0 && threadIdx.x < 32;
  std::int64_t row = blockIdx.y * rows_of_part;
  dy.rows = x.rows = min(x.rows, row + rows_of_part);
  PartWalk<T, kTiles, kWide> walk(dy, x, strip, sums_dy);
  RowTile<kTiles> even;
  if constexpr (kTiles == 1) {
    // A tile is asked for while the one before is added. Two by name: a copy would wait.
    RowTile<kTiles> odd;
    walk.ask(even, row);
    for (; row < x.rows; row += 2 * thin::kTile) {
      walk.ask(odd, row + thin::kTile);
      walk.add(even);
      walk.ask(even, row + 2 * thin::kTile);
      walk.add(odd);
    }
  } else {
#pragma unroll 1
    for (; row < x.rows; row += thin::kTile) {
      walk.ask(even, row);
      walk.add(even);
    }
  }
  walk.store(out.dweight + std::int64_t(blockIdx.y) * dy.columns * x.columns,
             out.dbias + blockIdx.y * dy.columns);
}

template <int kOutputs>
__global__ __launch_bounds__(kFloatColumns) void dweight_kernel_fp32(
    const float* dy, const float* x, std::int64_t rows, std::int64_t columns, int num_outputs,
    std::int64_t rows_of_part, PartSums out) {
  __shared__ float tile[kFloatRows][kOutputs];
  const std::int64_t column = std::int64_t(blockIdx.x) * kFloatColumns + threadIdx.x;
  const std::int64_t begin = blockIdx.y * rows_of_part, end = min(rows, begin + rows_of_part);
  const bool sums_dy = out.dbias != nullptr && blockIdx.x == 0 && int(threadIdx.x) < num_outputs;
  float sums[kOutputs] = {};
  float bias = 0;
  for (std::int64_t row = begin; row < end; row += kFloatRows) {
    thin::load_tile(tile, dy, row, end, num_outputs);
    float values[kFloatRows];
#pragma unroll
    for (int r = 0; r < kFloatRows; ++r) {
      const bool inside = row + r < end && column < columns;
      values[r] = inside ? x[(row + r) * columns + column] : 0.0f;
    }
#pragma unroll
    for (int r = 0; r < kFloatRows; ++r) {
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) sums[o] += tile[r][o] * values[r];
      if (sums_dy) bias += tile[r][threadIdx.x];
    }
  }
  float* dweight = out.dweight + std::int64_t(blockIdx.y) * num_outputs * columns;
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    if (o < num_outputs && column < columns) dweight[o * columns + column] = sums[o];
  }
  if (sums_dy) out.dbias[blockIdx.y * num_outputs + threadIdx.x] = bias;
}

/// to[i] = sum over the parts, in their order: the weights', then the biases'.
__global__ void add_parts_kernel(PartSums parts, PartSums to, std::int64_t num_parts,
                                 std::int64_t num_weights, std::int64_t num_biases) {
  const std::int64_t at = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= num_weights + num_biases) return;
  const bool bias = at >= num_weights;
  const std::int64_t i = bias ? at - num_weights : at, stride = bias ? num_biases : num_weights;
  const float* from = (bias ? parts.dbias : parts.dweight) + i;
  float sum = 0;
  for (std::int64_t p = 0; p < num_parts; ++p) sum += from[p * stride];
  (bias ? to.dbias : to.dweight)[i] = sum;
}

struct PartSizes : thin::Sizes {
  using Sizes::Sizes;

  std::int64_t rows_of_part() const {
    const std::int64_t parts = blocks_down(kBlocks, ceil_div(rows, kLeastOfPart));
    const std::int64_t each = ceil_div<std::int64_t>(ceil_div(rows, parts), thin::kTile);
    return std::max<std::int64_t>(each, 1) * thin::kTile;
  }
  std::int64_t num_parts() const {
    return std::max<std::int64_t>(ceil_div(rows, rows_of_part()), 1);
  }
  std::int64_t parts_bytes() const {
    if (num_parts() == 1) return 0;
    return num_parts() * outputs * (columns + 1) * std::int64_t(sizeof(float));
  }
};

class ThinDweight final : public PreparedKernel {
 public:
  explicit ThinDweight(const KernelQuery& query) : sizes_(query) {}

  void run(const KernelArgs& args) const override {
    const std::int64_t rows = sizes_.rows, outputs = sizes_.outputs, columns = sizes_.columns;
    const std::int64_t parts = sizes_.num_parts(), weights = outputs * columns;
    const bool has_bias = args.num_out() > 1;
    const PartSums result{args.out<float>(0), has_bias ? args.out<float>(1) : nullptr};
    PartSums sums = result;
    if (parts > 1) {
      sums.dweight = reinterpret_cast<float*>(args.workspace());
      sums.dbias = has_bias ? sums.dweight + parts * weights : nullptr;
    }
    LaunchShape shape;
    shape.grid = dim3(unsigned(sizes_.column_blocks()), unsigned(parts));
    if (sizes_.dtype == DType::FP32) {
      shape.block.x = kFloatColumns;
      launch(args, shape, outputs <= 16 ? dweight_kernel_fp32<16> : dweight_kernel_fp32<64>,
             args.in<float>(0), args.in<float>(1), rows, columns, int(outputs),
             sizes_.rows_of_part(), sums);
    } else {
      shape.block.x = thin::kThreads;
      thin::dispatch_low(sizes_.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const thin::Matrix x = thin::matrix(args.in<std::byte>(1), rows, columns);
        const auto run = [&](auto* one_tile, auto* more) {
          launch(args, shape, outputs <= thin::kTile ? one_tile : more,
                 thin::matrix(args.in<std::byte>(0), rows, outputs), x, sizes_.rows_of_part(),
                 sums);
        };
        if (x.wide) {
          run(dweight_kernel<T, 1, true>, dweight_kernel<T, 4, true>);
        } else {
          run(dweight_kernel<T, 1, false>, dweight_kernel<T, 4, false>);
        }
      });
    }
    if (parts == 1) return;
    const std::int64_t biases = has_bias ? outputs : 0;
    launch(args, shape_for(weights + biases, 256, INT32_MAX), add_parts_kernel, sums, result, parts,
           weights, biases);
  }

 private:
  PartSizes sizes_;
};

const KernelRegistration kDweight{
    [] {
      KernelDef def = thin::kernel<ThinDweight>("fc_dweight", thin::refuse);
      def.workspace_bytes = [](const KernelQuery& query) { return PartSizes(query).parts_bytes(); };
      return def;
    }(),
    thin::kPriority};

}  // namespace
}  // namespace tr::cuda
