// SPDX-License-Identifier: Apache-2.0
// class_norm, weighted_nll and its gradient.
#include <limits>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/loss_sum.h"

namespace tr::cpu {
namespace {

std::int64_t label_at(const KernelArgs& args, int labels, std::int64_t row) {
  return args.in_type(labels).dtype == DType::INT64
             ? args.in<std::int64_t>(labels)[row]
             : std::int64_t(args.in<std::int32_t>(labels)[row]);
}

void launch_norm(const KernelArgs& args) {
  if (is_floating(args.in_type(0).dtype)) {  // each sample counts once
    args.out<float>(0)[0] = 1.0f;
    return;
  }
  const std::int64_t rows = args.in_type(0).shape[0];
  const std::int64_t ignored = args.attrs().i64("ignore_index");
  const float* weight = args.has_in(1) ? args.in<float>(1) : nullptr;
  const std::int64_t classes =
      weight ? args.in_type(1).shape[0] : std::numeric_limits<std::int64_t>::max();
  const float sum = sum_rows(args, rows, 1, [&](std::int64_t row) {
    const std::int64_t label = label_at(args, 0, row);
    if (label == ignored || label < 0 || label >= classes) return 0.0f;
    return weight ? weight[label] : 1.0f;
  });
  args.out<float>(0)[0] = sum > 0 ? float(rows) / sum : 0.0f;
}

/// A sample's weights of log-probabilities: norm * w[c] * ((1 - s) q[c] + s / C).
struct WeightedTarget {
  float peak = 0, uniform = 0;           // norm (1 - s), norm s / C
  const float* weight = nullptr;         // null: 1
  const float* probabilities = nullptr;  // of the sample; null: hard label
  std::int64_t label = 0;

  WeightedTarget(const KernelArgs& args, int labels, std::int64_t classes, std::int64_t row) {
    const float smoothing = args.attrs().f32("label_smoothing");
    const float norm = args.has_in(labels + 2) ? args.in<float>(labels + 2)[0] : 1.0f;
    if (args.has_in(labels + 1)) weight = args.in<float>(labels + 1);
    peak = norm * (1.0f - smoothing);
    uniform = norm * (smoothing / float(classes));
    if (is_floating(args.in_type(labels).dtype)) {
      probabilities = args.in<float>(labels) + row * classes;
      return;
    }
    label = label_at(args, labels, row);
    if (label == args.attrs().i64("ignore_index")) {
      peak = uniform = 0;
      label = 0;
    } else if (label < 0 || label >= classes) {  // the step is skipped and seen
      peak = uniform = std::numeric_limits<float>::quiet_NaN();
      label = 0;
    }
  }
  bool counts() const { return peak != 0 || uniform != 0; }
  float at(std::int64_t c) const {
    const float own = probabilities ? probabilities[c] : c == label ? 1.0f : 0.0f;
    return (weight ? weight[c] : 1.0f) * (peak * own + uniform);
  }
};

void launch_weighted(const KernelArgs& args) {
  const std::int64_t rows = args.in_type(0).shape[0], classes = args.in_type(0).shape[1];
  const float* logp = args.in<float>(0);
  args.out<float>(0)[0] = sum_rows(args, rows, classes, [&](std::int64_t row) {
    const WeightedTarget target(args, 1, classes, row);
    if (!target.counts()) return 0.0f;
    const float* own = logp + row * classes;
    if (!target.probabilities && target.uniform == 0) {
      return -target.at(target.label) * own[target.label];
    }
    return -sum_of(classes, [&](std::int64_t c) { return target.at(c) * own[c]; });
  });
}

void launch_weighted_backward(const KernelArgs& args) {
  const std::int64_t rows = args.out_type(0).shape[0], classes = args.out_type(0).shape[1];
  const float seed = args.in<float>(0)[0];
  float* grad = args.out<float>(0);
  for_chunks(args.pool(), rows, loss_chunk(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const WeightedTarget target(args, 2, classes, row);
      for (std::int64_t c = 0; c < classes; ++c) grad[row * classes + c] = -seed * target.at(c);
    }
  });
}

KernelDef summing_kernel(const char* op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch);
  def.workspace_bytes = [](const KernelQuery& query) {
    const Shape& shape = query.in[0].shape;
    return loss_workspace(shape[0], shape.rank() > 1 ? shape[1] : 1);
  };
  return def;
}

const KernelRegistration kNorm{summing_kernel("class_norm", launch_norm)};
const KernelRegistration kWeighted{summing_kernel("weighted_nll", launch_weighted)};
const KernelRegistration kBackward{
    simple_kernel("weighted_nll_backward", launch_weighted_backward)};

}  // namespace
}  // namespace tr::cpu
