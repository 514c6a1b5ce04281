// SPDX-License-Identifier: Apache-2.0
// classifier_loss: loss, its gradient, top 1 and top 5 of a batch of few classes by one block. A
// thread keeps a sample's scores in registers.
#include <cmath>

#include "backend/cuda/class_rows.cuh"
#include "backend/cuda/dispatch.h"
#include "backend/cuda/scalar.cuh"
#include "backend/cuda/step_row.cuh"
#include "backend/cuda/targets.cuh"
#include "core/det_math.h"

namespace tr::cuda {
namespace {

constexpr std::int64_t kTop = 5;

struct Seed {
  const std::int64_t* counters = nullptr;
  StepTable<const float> step_floats;
  const float* loss_scale = nullptr;

  /// loss_scale / samples of the global batch (loss_seed)
  __device__ float value() const {
    return *loss_scale * step_floats.row(counters)[kFloatInvWeight];
  }
};

struct Counted {
  float* loss_sum;
  std::int32_t* correct;
};

/// A sample's place: the number of classes that stand before its label (topk_correct).
template <typename T>
__device__ int classes_before(const Row<1, T>& row, std::int64_t label, float own) {
  return row.sum([&](std::int64_t i, float score) {
    return !(score <= own) || (score == own && i < label) ? 1 : 0;
  });
}

template <typename T, typename G, bool kGradient>
__global__ void __launch_bounds__(kLargestBlock)
    classifier_loss_kernel(const T* logits, std::int64_t rows, Targets targets, Seed seed,
                           Counted counted, G* dlogits) {
  const std::int64_t classes = targets.classes;
  const float scale = kGradient ? seed.value() : 0.0f;
  double loss_sum = 0;
  int top1 = 0, top5 = 0;
  for (std::int64_t n = threadIdx.x; n < rows; n += blockDim.x) {
    const T* from = logits + n * classes;
    const Row<1, T> row(from, classes);
    const std::int64_t label = targets.label(n);
    const bool valid = targets.is_class(label);
    const float largest = row.largest();
    const float log_sum =
        logf(row.sum([&](std::int64_t, float score) { return det::exp(score - largest); }));
    const auto logp = [&](float score) { return (score - largest) - log_sum; };
    if (!valid) {
      loss_sum += NAN;
    } else {
      const float own = to_float(from[label]);
      float loss = -(1.0f - targets.smoothing) * logp(own);
      if (targets.smoothing > 0) {
        loss -= targets.uniform() * row.sum([&](std::int64_t, float score) { return logp(score); });
      }
      loss_sum += double(loss);
      const int before = classes_before(row, label, own);
      top1 += before < min(std::int64_t(1), classes) ? 1 : 0;
      top5 += before < min(kTop, classes) ? 1 : 0;
    }
    if constexpr (kGradient) {
      const float base = scale * targets.uniform(), peak = scale * (1.0f - targets.smoothing);
      row.for_each([&](std::int64_t i, float score) {
        float gradient = scale * det::exp(logp(score));
        gradient -= base;
        if (i == label) gradient -= peak;
        dlogits[n * classes + i] = from_float<G>(valid ? gradient : NAN);
      });
    }
  }
  const double loss = block_sum(loss_sum);
  __syncthreads();
  const int first = block_sum(top1);
  __syncthreads();
  const int fifth = block_sum(top5);
  if (threadIdx.x != 0) return;
  *counted.loss_sum = float(loss);
  counted.correct[0] = first;
  counted.correct[1] = fifth;
}

void launch_classifier_loss(const KernelArgs& args) {
  const Shape& scores = args.in_type(0).shape;
  const Targets targets(args, 1, scores[1]);
  const Counted counted{args.out<float>(0), args.out<std::int32_t>(1)};
  const LaunchShape shape = row_shape(scores[0], scores[1]);
  const bool gradient = args.attrs().flag("gradient");
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (!gradient) {
      const Seed none{nullptr, StepTable<const float>(nullptr, Shape{1, 1}), nullptr};
      launch(args, shape, classifier_loss_kernel<T, float, false>, args.in<T>(0), scores[0],
             targets, none, counted, nullptr);
      return;
    }
    const Seed seed{args.in<std::int64_t>(2),
                    StepTable<const float>(args.in<float>(3), args.in_type(3).shape),
                    args.in<float>(4)};
    dispatch_float(args.out_type(2).dtype, [&](auto gradient_tag) {
      using G = typename decltype(gradient_tag)::type;
      launch(args, shape, classifier_loss_kernel<T, G, true>, args.in<T>(0), scores[0], targets,
             seed, counted, args.out<G>(2));
    });
  });
}

std::string refuse(const KernelQuery& query) {
  const Shape& scores = query.in[0].shape;
  if (scores[1] > kFewClasses) return "there are more than 16 classes";
  if (scores[0] > kLargestBlock) return "there are more than 1024 rows";
  return "";
}

const KernelRegistration kClassifierLoss{
    simple_kernel("classifier_loss", launch_classifier_loss, refuse)};

}  // namespace
}  // namespace tr::cuda
