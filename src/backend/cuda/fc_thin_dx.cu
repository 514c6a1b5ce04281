// SPDX-License-Identifier: Apache-2.0
// fc_dx of at most 64 outputs: dx [M, K] = (dy W) act'(gate). Time is what the gate and dx take on
// their way through memory, each once. A warp keeps its columns of W in registers and walks down
// the rows; it asks for a tile's gate and dy while it works on the tile before. 16-bit operands go
// through the tensor cores (fc_thin.cuh), fp32 ones are multiplied in fp32.
#include "backend/cuda/fc_product.h"
#include "backend/cuda/fc_small.cuh"
#include "backend/cuda/fc_thin.cuh"
#include "backend/cuda/mma_instructions.cuh"
#include "backend/cuda/relu_mask.cuh"

namespace tr::cuda {
namespace {

using thin::kFloatColumns;
using thin::kFloatRows;

// About four blocks for each multiprocessor of an H200; of fp32, whose threads hold less, six.
constexpr std::int64_t kBlocks = 528;
constexpr std::int64_t kFloatBlocks = 792;

/// What a kernel is made for: the usual cases do without a call and, in 16 bits, without asking
/// whether rows begin at multiples of 16 bytes. MASK: relu's, of 16 bits.
enum class Follow : std::uint8_t { NOTHING, RELU, MASK, ANY };

/// v *= act'(gate)
struct Gate {
  int activation;  // number in the functor table; -1: none
  float alpha;

  template <int kCount>
  __device__ __noinline__ void apply(float (&v)[kCount], const float (&gate)[kCount]) const {
    if (activation < 0) return;
    small_fc::visit(functors::Table<StdMath>{}, activation, alpha, [&](auto act) {
      for (int i = 0; i < kCount; ++i) v[i] = act.grad(gate[i], v[i]);
    });
  }
};

/// A thread's terms of rows of dy as mma's first operand. Loads do not branch: what lies outside is
/// read somewhere inside, and zero if it is a term; a row outside gives results that nobody wants.
template <int kSteps>
class Terms {
 public:
  __device__ Terms(const thin::Matrix& dy, int member) {
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      const int column = 2 * member + 8 * i;
      const bool low = column < dy.columns, high = column + 1 < dy.columns;
      low_[i] = low ? column : 0;
      high_[i] = high ? column + 1 : 0;
      mask_[i] = (low ? 0xffffu : 0) | (high ? 0xffff0000u : 0);
    }
  }
  /// From the rows `group` and `group + 8` of a tile.
  __device__ void load(std::uint32_t (&a)[kSteps][4], const thin::Bits* upper,
                       const thin::Bits* lower) const {
#pragma unroll
    for (int i = 0; i < 4 * kSteps; ++i) {
      const thin::Bits* row = i % 2 == 0 ? upper : lower;
      a[i / 4][i % 4] = thin::packed(row[low_[i / 2]], row[high_[i / 2]]) & mask_[i / 2];
    }
  }

 private:
  int low_[2 * kSteps], high_[2 * kSteps];
  std::uint32_t mask_[2 * kSteps];
};

/// A warp's columns of W as mma's second operand. Column c of mma tile j is column
/// 32 (j / 4) + 8 (c / 2) + 2 (j % 4) + c % 2 of the strip: a thread's results of a row are two
/// times eight neighbours, and those of the four threads that share the row 64 bytes without a gap.
template <int kSteps>
__device__ void load_weights(std::uint32_t (&b)[kSteps][8][2], const thin::Matrix& weight,
                             std::int64_t strip, int group, int member) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const std::int64_t wanted = strip + j / 4 * 32 + group / 2 * 8 + j % 4 * 2 + group % 2;
    const thin::Bits* from = weight.data + min(wanted, weight.columns - 1);
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      const int row = 2 * member + 8 * i;
      const bool low = row < weight.rows, high = row + 1 < weight.rows;
      const thin::Bits first = from[low ? row * weight.columns : 0];
      const thin::Bits second = from[high ? (row + 1) * weight.columns : 0];
      b[i / 2][j][i % 2] = thin::packed(low ? first : thin::Bits(0), high ? second : thin::Bits(0));
    }
  }
}

/// What a warp knows of 16 rows before it multiplies: terms of two rows a thread, and their gates,
/// two times eight neighbours each.
template <int kSteps>
struct Tile {
  std::uint32_t a[kSteps][4];
  uint4 gates[2][2];
};

/// A warp's walk down its columns.
template <typename T, int kSteps, Follow kFollow>
class Walk {
 public:
  __device__ Walk(const thin::Matrix& dy, const thin::Matrix& weight, const thin::Matrix& saved,
                  const Gate& gate, thin::Bits* dx, std::int64_t strip)
      : group_(int(threadIdx.x) % 32 / 4),
        columns_{strip + threadIdx.x % 4 * 8, strip + threadIdx.x % 4 * 8 + 32},
        terms_(dy, int(threadIdx.x) % 4),
        dy_(dy),
        saved_(saved),
        gate_(gate),
        dx_(dx),
        num_columns_(weight.columns) {
    load_weights(b_, weight, strip, group_, int(threadIdx.x) % 4);
  }

  /// Asks for the tile from `row` on, which may lie outside.
  __device__ void ask(Tile<kSteps>& tile, std::int64_t row) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t column = columns_[i % 2];
      if constexpr (kFollow == Follow::RELU) {
        const thin::Bits* from = saved_.data + inside(row, i / 2) * num_columns_;
        tile.gates[i / 2][i % 2] =
            *reinterpret_cast<const uint4*>(from + (column < num_columns_ ? column : 0));
      } else if constexpr (kFollow == Follow::MASK) {
        const std::int64_t at = inside(row, i / 2) * num_columns_ + column;
        tile.gates[i / 2][i % 2].x =
            reinterpret_cast<const std::uint8_t*>(saved_.data)[column < num_columns_ ? at / 8 : 0];
      } else if constexpr (kFollow == Follow::ANY) {
        tile.gates[i / 2][i % 2] =
            gate_.activation < 0 ? uint4{} : saved_.eight(row + group_ + i / 2 * 8, column);
      }
    }
    if constexpr (kTermsAhead) ask_terms(tile, row);
  }

  __device__ void finish(Tile<kSteps>& tile, std::int64_t row) const {
    if constexpr (!kTermsAhead) ask_terms(tile, row);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sums[4][4] = {};
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::uint32_t(&column)[2] = b_[s][half * 4 + j];
          mma::multiply(sums[j], tile.a[s], column[0], column[1], T{});
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {  // row group or group + 8
        float v[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) v[e] = sums[e / 2][2 * i + e % 2];
        store(v, tile.gates[i][half], row + group_ + i * 8, columns_[half]);
      }
    }
  }

 private:
  static constexpr bool kTermsAhead = kSteps == 1;  // else there are too few registers

  /// The thread's first or second row of a tile, or the last one of all.
  __device__ std::int64_t inside(std::int64_t row, int second) const {
    return min(row + group_ + second * 8, dy_.rows - 1);
  }
  __device__ void ask_terms(Tile<kSteps>& tile, std::int64_t row) const {
    terms_.load(tile.a, dy_.data + inside(row, 0) * dy_.columns,
                dy_.data + inside(row, 1) * dy_.columns);
  }
  __device__ void store(float (&v)[8], const uint4& gates, std::int64_t row,
                        std::int64_t column) const {
    if constexpr (kFollow == Follow::ANY) {
      float g[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        g[e] = thin::value_of(thin::half_of(thin::word_of(gates, e / 2), e % 2), T{});
      }
      gate_.apply(v, g);
    }
    std::uint32_t result[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      result[e] = thin::packed(thin::bits_of(v[2 * e], T{}), thin::bits_of(v[2 * e + 1], T{}));
      if constexpr (kFollow == Follow::RELU) {
        result[e] &= ~not_positive(thin::word_of(gates, e), T{});
      }
      if constexpr (kFollow == Follow::MASK) result[e] &= kept_bits(gates.x, e);
    }
    if (row >= dy_.rows || column >= num_columns_) return;
    thin::Bits* to = dx_ + row * num_columns_ + column;
    if constexpr (kFollow == Follow::ANY) {
      if (!saved_.wide) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          if (column + e < num_columns_) to[e] = thin::half_of(result[e / 2], e % 2);
        }
        return;
      }
    }
    thin::store_eight(to, result);
  }

  int group_;
  std::int64_t columns_[2];  // where the thread's eights begin
  Terms<kSteps> terms_;
  std::uint32_t b_[kSteps][8][2];
  const thin::Matrix &dy_, &saved_;
  const Gate& gate_;
  thin::Bits* dx_;
  std::int64_t num_columns_;
};

template <typename T, int kSteps, Follow kFollow>
__global__ __launch_bounds__(thin::kThreads, kSteps == 1 ? 4 : 2) void dx_kernel(
    thin::Matrix dy, thin::Matrix weight, thin::Matrix saved, Gate gate, thin::Bits* dx) {
  const std::int64_t strip = std::int64_t(blockIdx.x) * thin::kBlockColumns +
                             std::int64_t(threadIdx.x / 32) * thin::kWarpColumns;
  if (strip >= weight.columns) return;  // a whole warp leaves together
  const Walk<T, kSteps, kFollow> walk(dy, weight, saved, gate, dx, strip);
  const std::int64_t stride = std::int64_t(gridDim.y) * thin::kTile;
  std::int64_t row = std::int64_t(blockIdx.y) * thin::kTile;
  // Two tiles by name: a copy from one to the other would wait for what was asked for.
  Tile<kSteps> even, odd;
  walk.ask(even, row);
  for (; row < dy.rows; row += 2 * stride) {
    walk.ask(odd, row + stride);
    walk.finish(even, row);
    if (row + stride >= dy.rows) return;
    walk.ask(even, row + 2 * stride);
    walk.finish(odd, row + stride);
  }
}

template <int kOutputs, Follow kFollow>
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
    if (kFollow == Follow::RELU || (kFollow == Follow::ANY && gate.activation >= 0)) {
#pragma unroll
      for (int r = 0; r < kFloatRows; ++r) {
        if (inside && row + r < rows) g[r] = saved[(row + r) * columns + column];
      }
    }
    thin::load_tile(tile, dy, row, rows, num_outputs);
#pragma unroll
    for (int r = 0; r < kFloatRows; ++r) {
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) v[r] += tile[r][o] * weights[o];
      if (kFollow == Follow::RELU) v[r] = functors::Relu<StdMath>{}.grad(g[r], v[r]);
    }
    if (kFollow == Follow::ANY) gate.apply(v, g);
#pragma unroll
    for (int r = 0; r < kFloatRows; ++r) {
      if (inside && row + r < rows) dx[(row + r) * columns + column] = v[r];
    }
  }
}

class ThinDx final : public PreparedKernel {
 public:
  explicit ThinDx(const KernelQuery& query)
      : sizes_(query), gate_{-1, 0}, masked_(has_mask(query)) {
    const std::string activation = query.attrs.str("activation");
    if (activation.empty()) return;
    gate_.activation = small_fc::activation_number(activation);
    gate_.alpha = query.attrs.f32("alpha");
  }

  void run(const KernelArgs& args) const override {
    if (sizes_.rows == 0) return;
    if (sizes_.dtype == DType::FP32) return run_fp32(args);
    thin::dispatch_low(sizes_.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      sizes_.outputs <= thin::kTile ? run_low<T, 1>(args) : run_low<T, 4>(args);
    });
  }

 private:
  Follow follow() const {
    if (gate_.activation < 0) return Follow::NOTHING;
    static const int relu = small_fc::activation_number("relu");
    return gate_.activation == relu ? Follow::RELU : Follow::ANY;
  }
  LaunchShape shape(int threads, std::int64_t blocks) const {
    const std::int64_t tiles = ceil_div<std::int64_t>(sizes_.rows, thin::kTile);
    LaunchShape shape;
    shape.block.x = unsigned(threads);
    shape.grid =
        dim3(unsigned(sizes_.column_blocks()), unsigned(sizes_.blocks_down(blocks, tiles)));
    return shape;
  }

  template <typename T, int kSteps>
  void run_low(const KernelArgs& args) const {
    const std::int64_t rows = sizes_.rows, outputs = sizes_.outputs, columns = sizes_.columns;
    auto* dx = args.out<thin::Bits>(0);
    const auto* saved = args.has_in(2) ? args.in<std::byte>(2) : nullptr;
    thin::Matrix gate = thin::matrix(saved, rows, columns);
    gate.wide = gate.wide && aligned_to(16, dx);
    const Follow follows = masked_ ? Follow::MASK : gate.wide ? follow() : Follow::ANY;
    launch(args, shape(thin::kThreads, kBlocks),
           follows == Follow::NOTHING ? dx_kernel<T, kSteps, Follow::NOTHING>
           : follows == Follow::RELU  ? dx_kernel<T, kSteps, Follow::RELU>
           : follows == Follow::MASK  ? dx_kernel<T, kSteps, Follow::MASK>
                                      : dx_kernel<T, kSteps, Follow::ANY>,
           thin::matrix(args.in<std::byte>(0), rows, outputs),
           thin::matrix(args.in<std::byte>(1), outputs, columns), gate, gate_, dx);
  }

  void run_fp32(const KernelArgs& args) const {
    const float* saved = args.has_in(2) ? args.in<float>(2) : nullptr;
    const auto run = [&](auto* nothing, auto* relu, auto* any) {
      const Follow follows = follow();
      launch(args, shape(kFloatColumns, kFloatBlocks),
             follows == Follow::NOTHING ? nothing
             : follows == Follow::RELU  ? relu
                                        : any,
             args.in<float>(0), args.in<float>(1), saved, gate_, args.out<float>(0), sizes_.rows,
             sizes_.columns, int(sizes_.outputs));
    };
    if (sizes_.outputs <= 16) {
      run(dx_kernel_fp32<16, Follow::NOTHING>, dx_kernel_fp32<16, Follow::RELU>,
          dx_kernel_fp32<16, Follow::ANY>);
    } else {
      run(dx_kernel_fp32<64, Follow::NOTHING>, dx_kernel_fp32<64, Follow::RELU>,
          dx_kernel_fp32<64, Follow::ANY>);
    }
  }

  thin::Sizes sizes_;
  Gate gate_;
  bool masked_;
};

std::string refuse_dx(const KernelQuery& query) {
  if (query.out[0].dtype != query.in[0].dtype) return "dx is of another dtype than dy";
  const std::string activation = query.attrs.str("activation");
  if (!activation.empty() && small_fc::activation_number(activation) < 0) {
    return "there is no functor of activation '" + activation + "'";
  }
  if (!activation.empty() && !has_mask(query) && query.in[2].dtype != query.in[0].dtype) {
    return "the gate is of another dtype than dy";
  }
  return thin::refuse(query);
}

const KernelRegistration kDx{thin::kernel<ThinDx>("fc_dx", refuse_dx), thin::kPriority};

}  // namespace
}  // namespace tr::cuda
