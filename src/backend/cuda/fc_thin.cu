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

template <typename T, int kTiles>
__global__ __launch_bounds__(thin::kThreads) void dweight_kernel(thin::Matrix dy, thin::Matrix x,
                                                                 std::int64_t rows_of_part,
                                                                 PartSums out) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, member = lane % 4;
  const std::int64_t strip = std::int64_t(blockIdx.x) * thin::kBlockColumns +
                             std::int64_t(threadIdx.x / 32) * thin::kWarpColumns;
  const std::int64_t begin = blockIdx.y * rows_of_part;
  const auto num_outputs = int(dy.columns);
  const bool sums_dy = out.dbias != nullptr && blockIdx.x == 0 && threadIdx.x < 32;
  dy.rows = x.rows = min(x.rows, begin + rows_of_part);
  float sums[kTiles][8][4] = {};
  float bias[kTiles][2] = {};
#pragma unroll 2
  for (std::int64_t row = begin; row < x.rows; row += thin::kTile) {
    // Column `group` of the warp's mma tile j is column 8 group + j of the strip.
    uint4 eight[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      eight[i] = x.eight(row + 2 * member + i % 2 + i / 2 * 8, strip + group * 8);
    }
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      std::uint32_t a[4];
      thin::load_terms_down(a, dy, row, m * thin::kTile, group, member);
#pragma unroll
      for (int i = 0; i < 4 && sums_dy; ++i) {
        bias[m][i % 2] += thin::value_of(thin::half_of(a[i], 0), T{}) +
                          thin::value_of(thin::half_of(a[i], 1), T{});
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        mma::multiply(sums[m][j], a, thin::pair_of(eight[0], eight[1], j),
                      thin::pair_of(eight[2], eight[3], j), T{});
      }
    }
  }
  float* dweight = out.dweight + std::int64_t(blockIdx.y) * num_outputs * x.columns;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int output = m * thin::kTile + group + c / 2 * 8;
      const std::int64_t column = strip + (2 * member + c % 2) * 8;
      if (output >= num_outputs) continue;
      float* to = dweight + output * x.columns + column;
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        if (x.wide && column < x.columns) {
          *reinterpret_cast<float4*>(to + j) =
              make_float4(sums[m][j][c], sums[m][j + 1][c], sums[m][j + 2][c], sums[m][j + 3][c]);
          continue;
        }
#pragma unroll
        for (int e = j; e < j + 4; ++e) {
          if (column + e < x.columns) to[e] = sums[m][e][c];
        }
      }
    }
    if (!sums_dy) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = bias[m][half];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const int output = m * thin::kTile + group + half * 8;
      if (member == 0 && output < num_outputs) out.dbias[blockIdx.y * num_outputs + output] = sum;
    }
  }
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
        launch(args, shape, outputs <= thin::kTile ? dweight_kernel<T, 1> : dweight_kernel<T, 4>,
               thin::matrix(args.in<std::byte>(0), rows, outputs),
               thin::matrix(args.in<std::byte>(1), rows, columns), sizes_.rows_of_part(), sums);
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
