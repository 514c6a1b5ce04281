// SPDX-License-Identifier: Apache-2.0
// Muon: the matrices one after the other, their products in bf16 with fp32 sums as PyTorch makes
// them; all other elements by AdamW in one pass.
#include "backend/cuda/fc_product.h"
#include "backend/cuda/muon.h"
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

/// A matrix and its segment's number.
struct Place {
  std::int64_t begin, count, rows, columns;
};

__device__ const Segment* segment_of(const StepInputs& step, const Place& place) {
  const int s = segment_at(step, place.begin);
  if (s == step.num_segments || step.segments[s].begin != place.begin) return nullptr;
  return step.segments[s].frozen != 0 ? nullptr : &step.segments[s];
}

/// The direction of every element into `u`, the squares of each block into `sums`.
__global__ __launch_bounds__(kThreads) void begin_kernel(Ranges<__half> ranges, StepInputs step,
                                                         formulas::MuonStep muon, Place place,
                                                         float* u, double* sums) {
  const bool idle = *step.found_inf != 0 || segment_of(step, place) == nullptr;
  const GradientScale scale = gradient_scale(step, step.grad_sumsq);
  const std::int64_t begin = std::int64_t(blockIdx.x) * kPerBlock;
  float sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < begin + kPerBlock && i < place.count;
       i += kThreads) {
    float value = 0;
    if (!idle) {
      float& m = ranges.moment1[place.begin + i];
      value = muon.direction(scale(ranges.gradients[place.begin + i]), m);
    }
    u[i] = value;
    sum += value * value;
  }
  const double total = block_sum(double(sum));
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

/// 1 / the norm. One block.
__global__ __launch_bounds__(kThreads) void norm_kernel(const double* sums, std::int64_t count,
                                                        float eps, float* scale) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += sums[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    const float norm = float(sqrt(sum));
    *scale = 1.0f / (norm > eps ? norm : eps);
  }
}

__global__ __launch_bounds__(kThreads) void narrow_kernel(const float* u, const float* scale,
                                                          std::int64_t count, Bf16* x) {
  const std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) x[i] = from_float<Bf16>(u[i] * *scale);
}

/// out = alpha a + beta b
__global__ __launch_bounds__(kThreads) void add_kernel(const Bf16* a, float alpha, const float* b,
                                                       float beta, std::int64_t count, Bf16* out) {
  constexpr int kNear = 8;
  const std::int64_t first = (std::int64_t(blockIdx.x) * kThreads + threadIdx.x) * kNear;
  if (first + kNear <= count) {
    const auto x = *reinterpret_cast<const Vector<Bf16, kNear>*>(a + first);
    const auto y = *reinterpret_cast<const Vector<float, 4>*>(b + first);
    const auto z = *reinterpret_cast<const Vector<float, 4>*>(b + first + 4);
    Vector<Bf16, kNear> sum;
#pragma unroll
    for (int j = 0; j < kNear; ++j) {
      const float other = j < 4 ? y.v[j % 4] : z.v[j % 4];
      sum.v[j] = from_float<Bf16>(alpha * to_float(x.v[j]) + beta * other);
    }
    *reinterpret_cast<Vector<Bf16, kNear>*>(out + first) = sum;
    return;
  }
  for (std::int64_t i = first; i < count; ++i) {
    out[i] = from_float<Bf16>(alpha * to_float(a[i]) + beta * b[i]);
  }
}

template <typename T>
__global__ __launch_bounds__(kThreads) void end_kernel(Ranges<T> ranges, StepInputs step,
                                                       formulas::MuonStep muon, Place place,
                                                       const Bf16* x) {
  if (*step.found_inf != 0) return;
  const Segment* segment = segment_of(step, place);
  if (segment == nullptr) return;
  const formulas::MuonRates rates =
      muon.rates(rates_of(*segment, step_row(step)), place.rows, place.columns);
  const std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= place.count) return;
  const float w = ranges.weights[place.begin + i] * rates.keep - rates.step * to_float(x[i]);
  ranges.weights[place.begin + i] = w;
  if (ranges.weight_cast != nullptr) ranges.weight_cast[place.begin + i] = from_float<T>(w);
}

LaunchShape over(std::int64_t items) {
  LaunchShape shape;
  shape.grid.x = unsigned(std::max<std::int64_t>(1, ceil_div<std::int64_t>(items, kThreads)));
  shape.block.x = kThreads;
  return shape;
}

void add(const KernelArgs& args, Bf16* a, float alpha, const float* b, float beta,
         std::int64_t count) {
  launch(args, over(ceil_div<std::int64_t>(count, 8)), add_kernel, a, alpha, b, beta, count, a);
}

void end(const KernelArgs& args, const formulas::MuonStep& muon, const Place& place, Bf16* x) {
  const int cast = kFirstMoment + 2;
  const auto launch_as = [&](auto* copy) {
    using T = std::remove_pointer_t<decltype(copy)>;
    launch(args, over(place.count), end_kernel<T>, ranges_of<T>(args, 2, copy), step_inputs(args),
           muon, place, static_cast<const Bf16*>(x));
  };
  if (!args.has_in(cast)) return launch_as(static_cast<__half*>(nullptr));
  if (args.in_type(cast).dtype == DType::FP16) return launch_as(args.state<__half>(cast));
  launch_as(args.state<Bf16>(cast));
}

}  // namespace

std::int64_t muon_num_sums(std::int64_t elements) { return ceil_div(elements, kPerBlock); }

void update_matrix(const KernelArgs& args, const ops::Matrix& m, const MuonProducts& products,
                   const MuonBuffers& buffers) {
  constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;  // torch.optim.Muon's
  const formulas::MuonStep muon = formulas::muon_step_of(args.attrs());
  const Place place{m.begin, m.elements(), m.rows, m.columns};
  const bool tall = m.rows > m.columns;
  const std::int64_t side = std::min(m.rows, m.columns);
  auto *x = static_cast<Bf16*>(buffers.x), *gram = static_cast<Bf16*>(buffers.gram);
  LaunchShape shape = over(1);
  shape.grid.x = unsigned(muon_num_sums(place.count));
  launch(args, shape, begin_kernel, ranges_of<__half>(args, 2, nullptr), step_inputs(args), muon,
         place, buffers.sum, buffers.norms);
  launch(args, over(1), norm_kernel, static_cast<const double*>(buffers.norms),
         muon_num_sums(place.count), muon.eps, buffers.scale);
  launch(args, over(place.count), narrow_kernel, static_cast<const float*>(buffers.sum),
         static_cast<const float*>(buffers.scale), place.count, x);
  for (std::int64_t step = 0; step < args.attrs().i64("steps"); ++step) {
    products.gram->run(args, {x, x, gram, nullptr, buffers.workspace});
    products.square->run(args, {gram, gram, buffers.sum, nullptr, buffers.workspace});
    add(args, gram, kB, buffers.sum, kC, side * side);  // B = b A + c A A
    products.apply->run(
        args, {tall ? x : gram, tall ? gram : x, buffers.sum, nullptr, buffers.workspace});
    add(args, x, kA, buffers.sum, 1, place.count);
  }
  end(args, muon, place, x);
}

void update_others(const KernelArgs& args, int num_state_inputs) {
  const auto adam = formulas::muon_adam_of<FastMath>(args.attrs());
  update_all(args, num_state_inputs, Others{{adam}});
}

}  // namespace tr::cuda::optimizer
