// SPDX-License-Identifier: Apache-2.0
// classifier_loss: loss, its gradient, top 1 and top 5 of a batch of few classes by one block. A
// thread keeps a sample's scores in registers.
#include <cmath>

#include "backend/cuda/class_rows.cuh"
#include "backend/cuda/dispatch.h"
#include "backend/cuda/early_start.cuh"
#include "backend/cuda/scalar.cuh"
#include "backend/cuda/step_row.cuh"
#include "backend/cuda/targets.cuh"
#include "core/det_math.h"

namespace tr::cuda {
namespace {

constexpr int kTop = 5;

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

constexpr int kLanes = 4;  // threads of a row
constexpr int kPerLane = kFewClasses / kLanes;
constexpr int kMostRows = kLargestBlock / kLanes;  // of one pass over the block

/// A row of scores in the registers of kLanes threads, each with kPerLane neighbours.
template <typename T>
class SharedRow {
 public:
  __device__ SharedRow(const T* x, int classes, bool present) : classes_(classes) {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      x_[j] = present && first() + j < classes ? to_float(x[first() + j]) : 0.0f;
    }
  }
  __device__ static int first() { return int(threadIdx.x) % kLanes * kPerLane; }

  template <typename F>
  __device__ void for_each(F f) const {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (first() + j < classes_) f(first() + j, x_[j]);
    }
  }
  /// Sum of f(class, score), the same in all threads of the row.
  template <typename F>
  __device__ auto sum(F f) const {
    decltype(f(0, 0.0f)) sum = 0;
    for_each([&](int i, float x) { sum += f(i, x); });
    for (int width = kLanes / 2; width > 0; width /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, width);
    }
    return sum;
  }
  /// A NaN counts as absent: what is computed from its row becomes NaN by its own.
  __device__ float largest() const {
    float largest = -INFINITY;
    for_each([&](int, float x) { largest = fmaxf(largest, x); });
    for (int width = kLanes / 2; width > 0; width /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, width));
    }
    return largest;
  }
  __device__ float at(int label) const {
    return sum([&](int i, float x) { return i == label ? x : 0.0f; });
  }

 private:
  float x_[kPerLane];
  int classes_;
};

template <typename T, typename G, bool kGradient>
__global__ void __launch_bounds__(kLargestBlock)
    classifier_loss_kernel(const T* logits, int rows, Targets targets, Seed seed, Counted counted,
                           G* dlogits, bool settled) {
  let_successors_start();
  if (!settled) wait_for_predecessors();
  const auto label_of = [&](int n) { return n < rows ? targets.label(n) : std::int64_t{0}; };
  const std::int64_t first_label = label_of(int(threadIdx.x) / kLanes);
  const float scale = kGradient ? seed.value() : 0.0f;
  if (settled) wait_for_predecessors();
  const int classes = int(targets.classes);
  double loss_sum = 0;
  int counts = 0;  // top 1 in the lower half, top 5 in the upper one
  const int passes = (rows + kMostRows - 1) / kMostRows;
  for (int pass = 0; pass < passes; ++pass) {
    const int n = pass * kMostRows + int(threadIdx.x) / kLanes;
    const bool present = n < rows;  // all threads of a warp take part in the row's sums
    const SharedRow<T> row(logits + std::int64_t(present ? n : 0) * classes, classes, present);
    const std::int64_t given = pass == 0 ? first_label : label_of(n);
    const bool valid = targets.is_class(given);
    const int label = valid ? int(given) : 0;
    const float largest = row.largest();
    const float log_sum =
        logf(row.sum([&](int, float score) { return det::exp(score - largest); }));
    const auto logp = [&](float score) { return (score - largest) - log_sum; };
    const float own = row.at(label);
    const float all = row.sum([&](int, float score) { return logp(score); });
    // A sample's place: the number of classes that stand before its label (topk_correct).
    const int before = row.sum(
        [&](int i, float score) { return !(score <= own) || (score == own && i < label) ? 1 : 0; });
    if (present && threadIdx.x % kLanes == 0) {
      const float loss = -(1.0f - targets.smoothing) * logp(own) - targets.uniform() * all;
      loss_sum += valid ? double(loss) : double(NAN);
      if (valid) counts += (before < 1 ? 1 : 0) + ((before < kTop ? 1 : 0) << 16);
    }
    if constexpr (kGradient) {
      if (!present) continue;
      const float base = scale * targets.uniform(), peak = scale * (1.0f - targets.smoothing);
      row.for_each([&](int i, float score) {
        float gradient = scale * det::exp(logp(score));
        gradient -= base;
        if (i == label) gradient -= peak;
        dlogits[std::int64_t(n) * classes + i] = from_float<G>(valid ? gradient : NAN);
      });
    }
  }
  const double loss = block_sum(loss_sum);
  __syncthreads();
  const int correct = block_sum(counts);
  if (threadIdx.x != 0) return;
  *counted.loss_sum = float(loss);
  counted.correct[0] = correct & 0xffff;
  counted.correct[1] = correct >> 16;
}

void launch_classifier_loss(const KernelArgs& args) {
  const Shape& scores = args.in_type(0).shape;
  const Targets targets(args, 1, scores[1]);
  const Counted counted{args.out<float>(0), args.out<std::int32_t>(1)};
  LaunchShape shape;
  shape.block.x = unsigned(std::clamp<std::int64_t>(
      ceil_div<std::int64_t>(scores[0] * kLanes, kWarp) * kWarp, kWarp, kLargestBlock));
  const bool gradient = args.attrs().flag("gradient");
  // Labels, the step's row and the scale are there before the scores.
  const bool settled =
      args.settled_in(1) && args.settled_in(2) && args.settled_in(3) && args.settled_in(4);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (!gradient) {
      const Seed none{nullptr, StepTable<const float>(nullptr, Shape{1, 1}), nullptr};
      launch(args, shape, classifier_loss_kernel<T, float, false>, args.in<T>(0), int(scores[0]),
             targets, none, counted, nullptr, args.settled_in(1));
      return;
    }
    const Seed seed{args.in<std::int64_t>(2),
                    StepTable<const float>(args.in<float>(3), args.in_type(3).shape),
                    args.in<float>(4)};
    dispatch_float(args.out_type(2).dtype, [&](auto gradient_tag) {
      using G = typename decltype(gradient_tag)::type;
      launch(args, shape, classifier_loss_kernel<T, G, true>, args.in<T>(0), int(scores[0]),
             targets, seed, counted, args.out<G>(2), settled);
    });
  });
}

std::string refuse(const KernelQuery& query) {
  const Shape& scores = query.in[0].shape;
  if (scores[1] > kFewClasses) return "there are more than 16 classes";
  if (scores[0] > kLargestBlock) return "there are more than 1024 rows";
  return "";
}

const KernelRegistration kClassifierLoss{[] {
  KernelDef def = simple_kernel("classifier_loss", launch_classifier_loss, refuse);
  def.early_start = true;
  return def;
}()};

}  // namespace
}  // namespace tr::cuda
