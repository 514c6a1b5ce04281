// SPDX-License-Identifier: Apache-2.0
// Muon: all matrices of a shape at once, their products in bf16 with fp32 sums as PyTorch makes
// them; all other elements by AdamW in one pass.
#include "backend/cuda/muon.h"

#include "backend/cuda/fc_product.h"
#include "backend/cuda/optimizer_by_formula.cuh"
#include "backend/optimizer_attrs.h"

namespace tr::cuda::optimizer {

/// AdamW of everything but the matrices.
struct Others : ByFormula<formulas::AdamW<FastMath>> {
  static constexpr bool kLeavesMatrices = true;
};

namespace {

constexpr std::int64_t kPerBlock = 4096;  // elements of a partial sum

using Bf16 = __nv_bfloat16;

/// The share of one block: matrix blockIdx.y, elements [begin, end) of it.
struct Share {
  std::int64_t matrix, begin, end;
  const Segment* segment = nullptr;  // null: the matrix stands still

  __device__ Share(const StepInputs& step, const MuonMatrices& matrices)
      : matrix(matrices.begins[blockIdx.y]),
        begin(std::int64_t(blockIdx.x) * kPerBlock),
        end(begin + kPerBlock) {
    const std::int64_t elements = matrices.rows * matrices.columns;
    end = end < elements ? end : elements;
    const int s = segment_at(step, matrix);
    const bool found = s < step.num_segments && step.segments[s].begin == matrix;
    if (found && step.segments[s].frozen == 0 && *step.found_inf == 0) segment = &step.segments[s];
  }
};

/// Momenta, and the squares of each block's directions into `sums`.
__global__ __launch_bounds__(kThreads) void begin_kernel(Ranges<__half> ranges, StepInputs step,
                                                         formulas::MuonStep muon,
                                                         MuonMatrices matrices, double* sums) {
  const Share share(step, matrices);
  const GradientScale scale = gradient_scale(step, step.grad_sumsq);
  float sum = 0;
  for (std::int64_t i = share.begin + threadIdx.x; share.segment != nullptr && i < share.end;
       i += kThreads) {
    float& m = ranges.moment1[share.matrix + i];
    const float value = muon.direction(scale(ranges.gradients[share.matrix + i]), m);
    sum += value * value;
  }
  const double total = block_sum(double(sum));
  if (threadIdx.x == 0) sums[std::int64_t(blockIdx.y) * gridDim.x + blockIdx.x] = total;
}

/// 1 / the norm. A block a matrix.
__global__ __launch_bounds__(kThreads) void norm_kernel(const double* sums, std::int64_t count,
                                                        float eps, float* scales) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += sums[blockIdx.x * count + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    const float norm = float(sqrt(sum));
    scales[blockIdx.x] = 1.0f / (norm > eps ? norm : eps);
  }
}

/// The directions over their norms; zeros for what stands still.
__global__ __launch_bounds__(kThreads) void narrow_kernel(Ranges<__half> ranges, StepInputs step,
                                                          formulas::MuonStep muon,
                                                          MuonMatrices matrices,
                                                          const float* scales, Bf16* x) {
  const Share share(step, matrices);
  const GradientScale scale = gradient_scale(step, step.grad_sumsq);
  x += blockIdx.y * matrices.rows * matrices.columns;
  for (std::int64_t i = share.begin + threadIdx.x; i < share.end; i += kThreads) {
    float value = 0;
    if (share.segment != nullptr) {
      const std::int64_t at = share.matrix + i;
      value = muon.along(scale(ranges.gradients[at]), ranges.moment1[at]) * scales[blockIdx.y];
    }
    x[i] = from_float<Bf16>(value);
  }
}

template <typename T>
__global__ __launch_bounds__(kThreads) void end_kernel(Ranges<T> ranges, StepInputs step,
                                                       formulas::MuonStep muon,
                                                       MuonMatrices matrices, const Bf16* x) {
  const Share share(step, matrices);
  if (share.segment == nullptr) return;
  const formulas::MuonRates rates =
      muon.rates(rates_of(*share.segment, step_row(step)), matrices.rows, matrices.columns);
  x += blockIdx.y * matrices.rows * matrices.columns;
  for (std::int64_t i = share.begin + threadIdx.x; i < share.end; i += kThreads) {
    const std::int64_t at = share.matrix + i;
    const float w = ranges.weights[at] * rates.keep - rates.step * to_float(x[i]);
    ranges.weights[at] = w;
    if (ranges.weight_cast != nullptr) ranges.weight_cast[at] = from_float<T>(w);
  }
}

/// A launch over all elements of all matrices.
LaunchShape over(const MuonMatrices& matrices) {
  LaunchShape shape;
  shape.grid.x = unsigned(muon_num_sums(matrices.elements()));
  shape.grid.y = unsigned(matrices.count);
  shape.block.x = kThreads;
  return shape;
}

void end(const KernelArgs& args, const formulas::MuonStep& muon, const MuonMatrices& matrices,
         const void* x) {
  const int cast = kFirstMoment + 2;
  const auto launch_as = [&](auto* copy) {
    using T = std::remove_pointer_t<decltype(copy)>;
    launch(args, over(matrices), end_kernel<T>, ranges_of<T>(args, 2, copy), step_inputs(args),
           muon, matrices, static_cast<const Bf16*>(x));
  };
  if (!args.has_in(cast)) return launch_as(static_cast<__half*>(nullptr));
  if (args.in_type(cast).dtype == DType::FP16) return launch_as(args.state<__half>(cast));
  launch_as(args.state<Bf16>(cast));
}

}  // namespace

std::int64_t muon_num_sums(std::int64_t elements) { return ceil_div(elements, kPerBlock); }

void update_matrices(const KernelArgs& args, const MuonMatrices& matrices,
                     const MuonProducts& products, const MuonBuffers& buffers) {
  const formulas::MuonStep muon = formulas::muon_step_of(args.attrs());
  const auto ranges = ranges_of<__half>(args, 2, nullptr);
  const bool tall = matrices.rows > matrices.columns;
  launch(args, over(matrices), begin_kernel, ranges, step_inputs(args), muon, matrices,
         buffers.norms);
  LaunchShape shape;
  shape.grid.x = unsigned(matrices.count);
  shape.block.x = kThreads;
  launch(args, shape, norm_kernel, static_cast<const double*>(buffers.norms),
         muon_num_sums(matrices.elements()), muon.eps, buffers.scales);
  launch(args, over(matrices), narrow_kernel, ranges, step_inputs(args), muon, matrices,
         static_cast<const float*>(buffers.scales), static_cast<Bf16*>(buffers.x));
  void *x = buffers.x, *next = buffers.next_x, *gram = buffers.gram, *square = buffers.square;
  for (std::int64_t step = 0; step < args.attrs().i64("steps"); ++step) {
    products.gram->run(args, {x, x, gram, nullptr, buffers.workspace});
    products.square->run(args, {gram, gram, square, nullptr, buffers.workspace, gram});
    products.apply->run(
        args, {tall ? x : square, tall ? square : x, next, nullptr, buffers.workspace, x});
    std::swap(x, next);
  }
  end(args, muon, matrices, x);
}

void update_others(const KernelArgs& args, int num_state_inputs) {
  const auto adam = formulas::muon_adam_of<FastMath>(args.attrs());
  update_all(args, num_state_inputs, Others{{adam}});
}

}  // namespace tr::cuda::optimizer
