// SPDX-License-Identifier: Apache-2.0
// log_softmax, nll, and the two fused: rows of class scores, computed in fp32, in one launch.
#include "backend/cuda/class_rows.cuh"
#include "backend/cuda/dispatch.h"
#include "backend/cuda/targets.cuh"
#include "core/det_math.h"

namespace tr::cuda {
namespace {

enum class Task { LOG_SOFTMAX, NLL, BOTH };

struct Outputs {
  float* logp = nullptr;
  float* loss_sum = nullptr;
  GridSum<double> sum;
};

/// -sum target logp of a row; logp(x) is that of a score.
template <int kGroup, typename T, typename F>
__device__ float loss_of(const Row<kGroup, T>& row, const T* x, const Targets& targets,
                         std::int64_t n, F logp) {
  float peak = 0;
  if (targets.soft()) {
    const float* q = targets.probabilities(n);
    peak = row.sum([&](std::int64_t i, float score) { return q[i] * logp(score); });
  } else {
    const std::int64_t label = targets.label(n);
    if (!targets.is_class(label)) return NAN;
    peak = logp(to_float(x[label]));
  }
  float loss = -(1.0f - targets.smoothing) * peak;
  if (targets.smoothing > 0) {
    loss -= targets.uniform() * row.sum([&](std::int64_t, float score) { return logp(score); });
  }
  return loss;
}

/// logp = x - max - log(sum exp(x - max)); a row of minus infinities or NaN gives NaN, as in
/// PyTorch. The loss is summed over the rows.
template <int kGroup, typename T, Task kTask>
__global__ void __launch_bounds__(kLargestBlock)
    class_rows_kernel(const T* x, std::int64_t rows, std::int64_t classes, Targets targets,
                      Outputs out) {
  using Loop = RowLoop<kGroup>;
  double loss_sum = 0;
  for (std::int64_t n = Loop::first(); n < rows; n += Loop::stride()) {
    const T* from = x + n * classes;
    const Row<kGroup, T> row(from, classes);
    if constexpr (kTask == Task::NLL) {
      const float loss = loss_of(row, from, targets, n, [](float score) { return score; });
      if (Loop::lane() == 0) loss_sum += double(loss);
    } else {
      const float largest = row.largest();
      const float log_sum =
          logf(row.sum([&](std::int64_t, float score) { return det::exp(score - largest); }));
      const auto logp = [&](float score) { return (score - largest) - log_sum; };
      float* to = out.logp + n * classes;
      row.for_each([&](std::int64_t i, float score) { to[i] = logp(score); });
      if constexpr (kTask == Task::BOTH) {
        const float loss = loss_of(row, from, targets, n, logp);
        if (Loop::lane() == 0) loss_sum += double(loss);
      }
    }
  }
  if constexpr (kTask != Task::LOG_SOFTMAX) {
    out.sum(loss_sum, [&](double sum) { *out.loss_sum = float(sum); });
  }
}

template <typename T, Task kTask>
void launch_rows(const KernelArgs& args, const LaunchShape& shape, const Outputs& out) {
  const Shape& scores = args.in_type(0).shape;
  const Targets targets = kTask == Task::LOG_SOFTMAX ? Targets() : Targets(args, 1, scores[1]);
  dispatch_group(scores[1], [&](auto group) {
    launch(args, shape, class_rows_kernel<decltype(group)::value, T, kTask>, args.in<T>(0),
           scores[0], scores[1], targets, out);
  });
}

LaunchShape plan(const KernelQuery& query) {
  return row_shape(query.in[0].shape[0], query.in[0].shape[1]);
}

void launch_log_softmax(const KernelArgs& args) {
  const Shape& scores = args.in_type(0).shape;
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    launch_rows<typename decltype(tag)::type, Task::LOG_SOFTMAX>(
        args, row_shape(scores[0], scores[1]), {args.out<float>(0), nullptr, {}});
  });
}

void launch_nll(const KernelArgs& args, const LaunchShape& shape, int ticket) {
  launch_rows<float, Task::NLL>(args, shape,
                                {nullptr, args.out<float>(0), grid_sum_of<double>(args, ticket)});
}

void launch_fused(const KernelArgs& args, const LaunchShape& shape, int ticket) {
  const Outputs out{args.out<float>(1), args.out<float>(0), grid_sum_of<double>(args, ticket)};
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    launch_rows<typename decltype(tag)::type, Task::BOTH>(args, shape, out);
  });
}

const KernelRegistration kLogSoftmax{simple_kernel("log_softmax", launch_log_softmax)};
const KernelRegistration kNll{summing_kernel({"nll", plan, launch_nll})};
const KernelRegistration kFused{summing_kernel({"softmax_cross_entropy", plan, launch_fused})};

}  // namespace
}  // namespace tr::cuda
