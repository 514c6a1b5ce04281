// SPDX-License-Identifier: Apache-2.0
// fc_dweight and fc_dx of at most 64 outputs: the other sides, batch and inputs, are long, so that
// time is what x, or dx and the gate, take on their way through memory. Each is read or written
// once and never waits for a neighbour; dy and the weights are small and stay in the caches.
//   dW [O, K] = dy^T x: the rows are cut into parts, whose sums a second kernel adds in their
//   order. dx [M, K] = (dy W) act'(gate): a warp keeps its columns of W in registers and walks down
//   the rows.
// 16-bit operands go through the tensor cores (fc_thin.cuh), fp32 ones are multiplied in fp32. The
// parts depend on the shape only.
#include <algorithm>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/fc_small.cuh"
#include "backend/cuda/fc_thin.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/mma_instructions.cuh"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda {
namespace {

constexpr std::int64_t kMostOutputs = 64;
constexpr std::int64_t kBlocks = 396;      // about: three for each multiprocessor of an H200
constexpr int kFloatColumns = 128;         // of a block of fp32: a thread each
constexpr int kFloatRows = 16;             // in shared memory at a time
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

/// dy's tile of kFloatRows rows from `row` on, zero outside.
template <int kOutputs>
__device__ void load_tile(float (&tile)[kFloatRows][kOutputs], const float* dy, std::int64_t row,
                          std::int64_t end, int num_outputs) {
  __syncthreads();
  for (int e = int(threadIdx.x); e < kFloatRows * kOutputs; e += kFloatColumns) {
    const int r = e / kOutputs, o = e % kOutputs;
    tile[r][o] = row + r < end && o < num_outputs ? dy[(row + r) * num_outputs + o] : 0.0f;
  }
  __syncthreads();
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
    load_tile(tile, dy, row, end, num_outputs);
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

/// v *= act'(gate)
struct Gate {
  int activation;  // number in the functor table; -1: none
  float alpha;
  int relu;  // its number: the usual one goes without a call

  template <int kCount>
  __device__ void apply(float (&v)[kCount], const float (&gate)[kCount]) const {
    if (activation < 0) return;
    if (activation == relu) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) v[i] = functors::Relu<StdMath>{}.grad(gate[i], v[i]);
    } else {
      apply_any(v, gate);
    }
  }

 private:
  template <int kCount>
  __device__ __noinline__ void apply_any(float (&v)[kCount], const float (&gate)[kCount]) const {
    small_fc::visit(functors::Table<StdMath>{}, activation, alpha, [&](auto act) {
      for (int i = 0; i < kCount; ++i) v[i] = act.grad(gate[i], v[i]);
    });
  }
};

template <typename T, int kSteps>
__global__ __launch_bounds__(thin::kThreads) void dx_kernel(thin::Matrix dy, thin::Matrix weight,
                                                            thin::Matrix saved, Gate gate,
                                                            thin::Bits* dx) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, member = lane % 4;
  const std::int64_t strip = std::int64_t(blockIdx.x) * thin::kBlockColumns +
                             std::int64_t(threadIdx.x / 32) * thin::kWarpColumns;
  if (strip >= weight.columns) return;  // a whole warp leaves together
  // Column c of mma tile j is column 16 (c / 2) + 2 j + c % 2 of the strip: a thread's results of a
  // row are 16 neighbours.
  std::uint32_t b[kSteps][8][2];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        b[s][j][half] = weight.pair_down(s * thin::kTile + 2 * member + half * 8,
                                         strip + group / 2 * 16 + 2 * j + group % 2);
      }
    }
  }
  const std::int64_t column = strip + member * 16;
  for (std::int64_t row = std::int64_t(blockIdx.y) * thin::kTile; row < dy.rows;
       row += std::int64_t(gridDim.y) * thin::kTile) {
    uint4 gates[2][2] = {};  // asked for before the products
    if (gate.activation >= 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        gates[i / 2][i % 2] = saved.eight(row + group + i / 2 * 8, column + i % 2 * 8);
      }
    }
    float sums[8][4] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      std::uint32_t a[4];
      thin::load_terms_across(a, dy, row, s * thin::kTile, group, member);
#pragma unroll
      for (int j = 0; j < 8; ++j) mma::multiply(sums[j], a, b[s][j][0], b[s][j][1], T{});
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // row group or group + 8, its first or last eight
      const int lower = i / 2 * 2, first = i % 2 * 4;
      float v[8], g[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        v[e] = sums[first + e / 2][lower + e % 2];
        g[e] = thin::value_of(thin::half_of(thin::word_of(gates[i / 2][i % 2], e / 2), e % 2), T{});
      }
      gate.apply(v, g);
      const std::int64_t r = row + group + i / 2 * 8, c = column + i % 2 * 8;
      if (r >= dy.rows) continue;
      thin::Bits* to = dx + r * weight.columns + c;
      std::uint32_t result[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        result[e] = thin::packed(thin::bits_of(v[2 * e], T{}), thin::bits_of(v[2 * e + 1], T{}));
      }
      if (saved.wide && c < weight.columns) {
        *reinterpret_cast<uint4*>(to) = make_uint4(result[0], result[1], result[2], result[3]);
        continue;
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (c + e < weight.columns) to[e] = thin::half_of(result[e / 2], e % 2);
      }
    }
  }
}

template <int kOutputs>
__global__ __launch_bounds__(kFloatColumns) void dx_kernel_fp32(
    const float* dy, const float* weight, const float* saved, Gate gate, float* dx,
    std::int64_t rows, std::int64_t columns, int num_outputs) {
  __shared__ float tile[kFloatRows][kOutputs];
  const std::int64_t column = std::int64_t(blockIdx.x) * kFloatColumns + threadIdx.x;
  const bool inside = column < columns;
  float weights[kOutputs];
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    weights[o] = o < num_outputs && inside ? weight[o * columns + column] : 0.0f;
  }
  for (std::int64_t row = std::int64_t(blockIdx.y) * kFloatRows; row < rows;
       row += std::int64_t(gridDim.y) * kFloatRows) {
    float v[kFloatRows] = {}, g[kFloatRows] = {};
    if (gate.activation >= 0) {
#pragma unroll
      for (int r = 0; r < kFloatRows; ++r) {
        if (inside && row + r < rows) g[r] = saved[(row + r) * columns + column];
      }
    }
    load_tile(tile, dy, row, rows, num_outputs);
#pragma unroll
    for (int r = 0; r < kFloatRows; ++r) {
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) v[r] += tile[r][o] * weights[o];
    }
    gate.apply(v, g);
#pragma unroll
    for (int r = 0; r < kFloatRows; ++r) {
      if (inside && row + r < rows) dx[(row + r) * columns + column] = v[r];
    }
  }
}

struct Sizes {
  std::int64_t rows = 0, outputs = 0, columns = 0;
  DType dtype = DType::FP32;

  /// Of dy [.., O] and the matrix whose rows are `columns` long: x or the weights.
  explicit Sizes(const KernelQuery& query)
      : outputs(query.in[0].shape.back()),
        columns(query.in[1].shape.back()),
        dtype(query.in[0].dtype) {
    rows = outputs == 0 ? 0 : query.in[0].shape.num_elements() / outputs;
  }
  std::int64_t column_blocks() const {
    return ceil_div<std::int64_t>(columns,
                                  dtype == DType::FP32 ? kFloatColumns : thin::kBlockColumns);
  }
  /// Of the grid, so that about kBlocks work.
  std::int64_t blocks_down(std::int64_t most) const {
    return std::clamp<std::int64_t>(kBlocks / column_blocks(), 1, std::max<std::int64_t>(most, 1));
  }
  std::int64_t rows_of_part() const {
    const std::int64_t parts = blocks_down(ceil_div(rows, kLeastOfPart));
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

thin::Matrix matrix(const void* data, std::int64_t rows, std::int64_t columns) {
  const auto* bits = static_cast<const thin::Bits*>(data);
  return {bits, rows, columns, columns % 8 == 0 && aligned_to(16, bits)};
}

/// Calls f(TypeTag<T>) with a 16-bit type.
template <typename F>
void dispatch_low(DType dtype, F&& f) {
  dtype == DType::FP16 ? f(TypeTag<__half>{}) : f(TypeTag<__nv_bfloat16>{});
}

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
      dispatch_low(sizes_.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        launch(args, shape, outputs <= thin::kTile ? dweight_kernel<T, 1> : dweight_kernel<T, 4>,
               matrix(args.in<std::byte>(0), rows, outputs),
               matrix(args.in<std::byte>(1), rows, columns), sizes_.rows_of_part(), sums);
      });
    }
    if (parts == 1) return;
    const std::int64_t biases = has_bias ? outputs : 0;
    launch(args, shape_for(weights + biases, 256, INT32_MAX), add_parts_kernel, sums, result, parts,
           weights, biases);
  }

 private:
  Sizes sizes_;
};

class ThinDx final : public PreparedKernel {
 public:
  explicit ThinDx(const KernelQuery& query)
      : sizes_(query), gate_{-1, 0, small_fc::activation_number("relu")} {
    const std::string activation = query.attrs.str("activation");
    if (activation.empty()) return;
    gate_.activation = small_fc::activation_number(activation);
    gate_.alpha = query.attrs.f32("alpha");
  }

  void run(const KernelArgs& args) const override {
    const std::int64_t rows = sizes_.rows, outputs = sizes_.outputs, columns = sizes_.columns;
    if (rows == 0) return;
    LaunchShape shape;
    shape.grid = dim3(unsigned(sizes_.column_blocks()),
                      unsigned(sizes_.blocks_down(ceil_div<std::int64_t>(rows, thin::kTile))));
    const auto* saved = args.has_in(2) ? args.in<std::byte>(2) : nullptr;
    if (sizes_.dtype == DType::FP32) {
      shape.block.x = kFloatColumns;
      launch(args, shape, outputs <= 16 ? dx_kernel_fp32<16> : dx_kernel_fp32<64>,
             args.in<float>(0), args.in<float>(1), reinterpret_cast<const float*>(saved), gate_,
             args.out<float>(0), rows, columns, int(outputs));
      return;
    }
    shape.block.x = thin::kThreads;
    auto* dx = args.out<thin::Bits>(0);
    thin::Matrix gate = matrix(saved, rows, columns);
    gate.wide = gate.wide && aligned_to(16, dx);
    dispatch_low(sizes_.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      launch(args, shape, outputs <= thin::kTile ? dx_kernel<T, 1> : dx_kernel<T, 4>,
             matrix(args.in<std::byte>(0), rows, outputs),
             matrix(args.in<std::byte>(1), outputs, columns), gate, gate_, dx);
    });
  }

 private:
  Sizes sizes_;
  Gate gate_;
};

std::string refuse(const KernelQuery& query) {
  const DType dtype = query.in[0].dtype;
  if (!is_floating(dtype)) return not_floating("input", 0, dtype);
  if (query.in[1].dtype != dtype) return "operands are of several dtypes, expected one";
  const Sizes sizes(query);
  if (sizes.outputs < 1 || sizes.outputs > kMostOutputs) {
    return "there are " + std::to_string(sizes.outputs) + " outputs, expected 1 to 64";
  }
  if (sizes.columns < 1) return "there are no columns";
  return dtype == DType::FP32 ? "" : refuse_old_code();
}

std::string refuse_dx(const KernelQuery& query) {
  if (query.out[0].dtype != query.in[0].dtype) return "dx is of another dtype than dy";
  const std::string activation = query.attrs.str("activation");
  if (!activation.empty() && small_fc::activation_number(activation) < 0) {
    return "there is no functor of activation '" + activation + "'";
  }
  if (!activation.empty() && query.in[2].dtype != query.in[0].dtype) {
    return "the gate is of another dtype than dy";
  }
  return refuse(query);
}

constexpr int kPriority = 15;  // before the library

template <typename Kernel>
KernelDef thin_kernel(const std::string& op, std::string (*refuse)(const KernelQuery&)) {
  KernelDef def = simple_kernel(op, nullptr, refuse);
  def.name = "cuda." + op + ".thin";
  def.prepare = [](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<Kernel>(query);
  };
  return def;
}

const KernelRegistration kDweight{[] {
                                    KernelDef def = thin_kernel<ThinDweight>("fc_dweight", refuse);
                                    def.workspace_bytes = [](const KernelQuery& query) {
                                      return Sizes(query).parts_bytes();
                                    };
                                    return def;
                                  }(),
                                  kPriority};
const KernelRegistration kDx{thin_kernel<ThinDx>("fc_dx", refuse_dx), kPriority};

}  // namespace
}  // namespace tr::cuda
