// SPDX-License-Identifier: Apache-2.0
// Gradients of log_softmax, nll, and the two fused.
#include "backend/cuda/class_rows.cuh"
#include "backend/cuda/map.cuh"
#include "backend/cuda/targets.cuh"
#include "core/det_math.h"

namespace tr::cuda {
namespace {

constexpr int kElements = 4;  // of one thread where no row is summed

/// One element of the gradient: softmax part less scale * target.
__device__ inline float less_target(float softmax_part, const Targets& targets, float scale,
                                    std::int64_t row, std::int64_t column) {
  const float base = scale * targets.uniform(), peak = scale * (1.0f - targets.smoothing);
  if (targets.soft()) {
    return softmax_part - (base + peak * targets.probabilities(row)[column]);
  }
  const std::int64_t label = targets.label(row);
  if (!targets.is_class(label)) return NAN;
  const float rest = softmax_part - base;
  return column == label ? rest - peak : rest;
}

/// nll_backward, and the fused gradient for class numbers, whose targets sum to one.
template <typename T, bool kSoftmax, typename Offset>
struct TargetGradient {
  const float* seed;
  const float* logp;
  T* grad;
  Targets targets;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const float scale = *seed;
    auto row = Offset(i) / Offset(targets.classes);
    auto column = Offset(i) - row * Offset(targets.classes);
    Vector<float, N> in = {};
    if constexpr (kSoftmax) in = load<N>(logp + i);
    Vector<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float softmax_part = kSoftmax ? scale * det::exp(in.v[j]) : 0.0f;
      out.v[j] = from_float<T>(
          less_target(softmax_part, targets, scale, std::int64_t(row), std::int64_t(column)));
      if (++column == Offset(targets.classes)) {
        column = 0;
        ++row;
      }
    }
    store(grad + i, out);
  }
};

template <typename T, bool kSoftmax>
void launch_target_gradient(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  const std::int64_t count = shape.num_elements();
  const float* logp = args.in<float>(1);
  T* grad = args.out<T>(0);
  const bool aligned = aligned_to(kVectorBytes, logp) && aligned_to(kElements * sizeof(T), grad);
  dispatch_offset(count, [&](auto tag) {
    launch_map<kElements>(args, count, aligned,
                          TargetGradient<T, kSoftmax, typename decltype(tag)::type>{
                              args.in<float>(0), logp, grad, Targets(args, 2, shape[1])});
  });
}

/// dlogits = seed * (exp(logp) * sum(target) - target) for given probabilities.
template <int kGroup, typename T>
__global__ void __launch_bounds__(kLargestBlock)
    soft_gradient_kernel(const float* seed, const float* logp, T* grad, std::int64_t rows,
                         Targets targets) {
  using Loop = RowLoop<kGroup>;
  const float scale = *seed;
  for (std::int64_t n = Loop::first(); n < rows; n += Loop::stride()) {
    const Row<kGroup, float> q(targets.probabilities(n), targets.classes);
    const float sum = q.sum([](std::int64_t, float probability) { return probability; });
    const float mass = (1.0f - targets.smoothing) * sum + targets.smoothing;
    const float scaled_mass = scale * mass;
    q.for_each([&](std::int64_t i, float) {
      const std::int64_t at = n * targets.classes + i;
      grad[at] = from_float<T>(less_target(scaled_mass * det::exp(logp[at]), targets, scale, n, i));
    });
  }
}

/// dx = dlogp - exp(logp) * sum dlogp
template <int kGroup, typename T>
__global__ void __launch_bounds__(kLargestBlock)
    log_softmax_gradient_kernel(const float* dlogp, const float* logp, T* dx, std::int64_t rows,
                                std::int64_t classes) {
  using Loop = RowLoop<kGroup>;
  for (std::int64_t n = Loop::first(); n < rows; n += Loop::stride()) {
    const Row<kGroup, float> row(dlogp + n * classes, classes);
    const float sum = row.sum([](std::int64_t, float grad) { return grad; });
    row.for_each([&](std::int64_t i, float grad) {
      const std::int64_t at = n * classes + i;
      dx[at] = from_float<T>(grad - det::exp(logp[at]) * sum);
    });
  }
}

void launch_nll_backward(const KernelArgs& args) { launch_target_gradient<float, false>(args); }

void launch_fused_backward(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (!is_floating(args.in_type(2).dtype)) return launch_target_gradient<T, true>(args);
    dispatch_group(shape[1], [&](auto group) {
      launch(args, row_shape(shape[0], shape[1]), soft_gradient_kernel<decltype(group)::value, T>,
             args.in<float>(0), args.in<float>(1), args.out<T>(0), shape[0],
             Targets(args, 2, shape[1]));
    });
  });
}

void launch_log_softmax_backward(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_group(shape[1], [&](auto group) {
      launch(args, row_shape(shape[0], shape[1]),
             log_softmax_gradient_kernel<decltype(group)::value, T>, args.in<float>(0),
             args.in<float>(1), args.out<T>(0), shape[0], shape[1]);
    });
  });
}

const KernelRegistration kNllBackward{simple_kernel("nll_backward", launch_nll_backward)};
const KernelRegistration kLogSoftmaxBackward{
    simple_kernel("log_softmax_backward", launch_log_softmax_backward)};
const KernelRegistration kFusedBackward{
    simple_kernel("softmax_cross_entropy_backward", launch_fused_backward)};

}  // namespace
}  // namespace tr::cuda
