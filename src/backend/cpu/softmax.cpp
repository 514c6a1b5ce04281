// SPDX-License-Identifier: Apache-2.0
// log_softmax, nll, and the two fused: rows of class scores, computed in fp32.
#include <cmath>
#include <limits>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/loss_sum.h"
#include "core/det_math.h"

namespace tr::cpu {
namespace {

std::int64_t rows_of(const TensorType& type) { return type.shape[0]; }
std::int64_t classes_of(const TensorType& type) { return type.shape[1]; }

/// logp = x - max - log(sum exp(x - max)), of one row; x may be logp.
void log_softmax_row(const float* x, float* logp, std::int64_t n) {
  float largest = x[0];
  for (std::int64_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  // A row of minus infinities or NaN gives NaN below, as in PyTorch.
  const float sum = sum_of(n, [&](std::int64_t i) { return det::exp(x[i] - largest); });
  const float log_sum = std::log(sum);
  for (std::int64_t i = 0; i < n; ++i)
    logp[i] = (x[i] - largest) - log_sum;  // exact where x is large
}

template <typename T>
void log_softmax_row(const T* x, float* logp, std::int64_t n) {
  load_floats(x, logp, n);
  log_softmax_row(static_cast<const float*>(logp), logp, n);
}

/// The target of a sample: (1 - s) q + s / C with q one-hot or the given probabilities. A class
/// number outside [0, C) makes the sample's loss and gradient NaN, so that the step is skipped and
/// seen.
struct Target {
  float smoothing = 0;
  std::int64_t classes = 0;
  const float* probabilities = nullptr;  // of the sample; null: hard label
  std::int64_t label = 0;

  float uniform() const { return smoothing / float(classes); }
  bool valid() const { return probabilities != nullptr || (label >= 0 && label < classes); }

  /// -sum target logp
  float loss(const float* logp) const {
    if (!valid()) return std::numeric_limits<float>::quiet_NaN();
    const float peak =
        probabilities == nullptr
            ? logp[label]
            : sum_of(classes, [&](std::int64_t i) { return probabilities[i] * logp[i]; });
    float loss = -(1.0f - smoothing) * peak;
    if (smoothing > 0) loss -= uniform() * sum_of(classes, [&](std::int64_t i) { return logp[i]; });
    return loss;
  }
  /// sum target
  float mass() const {
    if (probabilities == nullptr) return 1.0f;
    const float sum = sum_of(classes, [&](std::int64_t i) { return probabilities[i]; });
    return (1.0f - smoothing) * sum + smoothing;
  }
  /// grad[i] -= scale * target[i]
  void subtract(float scale, float* grad) const {
    if (!valid()) {
      std::fill_n(grad, classes, std::numeric_limits<float>::quiet_NaN());
      return;
    }
    const float base = scale * uniform(), peak = scale * (1.0f - smoothing);
    for (std::int64_t i = 0; i < classes; ++i) {
      grad[i] -= base + (probabilities == nullptr ? 0.0f : peak * probabilities[i]);
    }
    if (probabilities == nullptr) grad[label] -= peak;
  }
};

Target target_of(const KernelArgs& args, int labels, std::int64_t classes, std::int64_t row) {
  Target target{args.attrs().f32("label_smoothing"), classes, nullptr, 0};
  switch (args.in_type(labels).dtype) {
    case DType::INT32: target.label = args.in<std::int32_t>(labels)[row]; break;
    case DType::INT64: target.label = args.in<std::int64_t>(labels)[row]; break;
    default: target.probabilities = args.in<float>(labels) + row * classes;
  }
  return target;
}

void launch_log_softmax(const KernelArgs& args) {
  const std::int64_t classes = classes_of(args.in_type(0));
  float* logp = args.out<float>(0);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    const auto* x = args.in<typename decltype(tag)::type>(0);
    for_chunks(args.pool(), rows_of(args.in_type(0)), loss_chunk(classes),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   log_softmax_row(x + row * classes, logp + row * classes, classes);
                 }
               });
  });
}

void launch_nll(const KernelArgs& args) {
  const std::int64_t classes = classes_of(args.in_type(0));
  const float* logp = args.in<float>(0);
  args.out<float>(0)[0] = sum_rows(args, rows_of(args.in_type(0)), classes, [&](std::int64_t row) {
    return target_of(args, 1, classes, row).loss(logp + row * classes);
  });
}

void launch_fused(const KernelArgs& args) {
  const std::int64_t classes = classes_of(args.in_type(0));
  float* logp = args.out<float>(1);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    const auto* x = args.in<typename decltype(tag)::type>(0);
    args.out<float>(0)[0] =
        sum_rows(args, rows_of(args.in_type(0)), classes, [&](std::int64_t row) {
          log_softmax_row(x + row * classes, logp + row * classes, classes);
          return target_of(args, 1, classes, row).loss(logp + row * classes);
        });
  });
}

/// Calls f(row, grad) for each row of the output; grad is fp32 and rounded to the output
/// afterwards.
template <typename F>
void for_gradient_rows(const KernelArgs& args, F&& f) {
  const std::int64_t rows = rows_of(args.out_type(0)), classes = classes_of(args.out_type(0));
  auto* wide = reinterpret_cast<float*>(args.workspace());  // null where the output is fp32
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = args.out<T>(0);
    for_chunks(args.pool(), rows, loss_chunk(classes), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        float* buffer = wide == nullptr ? nullptr : wide + row * classes;
        float* grad = result_floats(out + row * classes, buffer);
        f(row, grad);
        put_floats(out + row * classes, grad, classes);
      }
    });
  });
}

void launch_nll_backward(const KernelArgs& args) {
  const float seed = args.in<float>(0)[0];
  const std::int64_t classes = classes_of(args.out_type(0));
  for_gradient_rows(args, [&](std::int64_t row, float* grad) {
    std::fill_n(grad, classes, 0.0f);
    target_of(args, 2, classes, row).subtract(seed, grad);
  });
}

void launch_log_softmax_backward(const KernelArgs& args) {
  const std::int64_t classes = classes_of(args.out_type(0));
  for_gradient_rows(args, [&](std::int64_t row, float* grad) {
    const float* dlogp = args.in<float>(0) + row * classes;
    const float* logp = args.in<float>(1) + row * classes;
    const float sum = sum_of(classes, [&](std::int64_t i) { return dlogp[i]; });
    for (std::int64_t i = 0; i < classes; ++i) grad[i] = dlogp[i] - det::exp(logp[i]) * sum;
  });
}

void launch_fused_backward(const KernelArgs& args) {
  const float seed = args.in<float>(0)[0];
  const std::int64_t classes = classes_of(args.out_type(0));
  for_gradient_rows(args, [&](std::int64_t row, float* grad) {
    const float* logp = args.in<float>(1) + row * classes;
    const Target target = target_of(args, 2, classes, row);
    const float scale = seed * target.mass();
    for (std::int64_t i = 0; i < classes; ++i) grad[i] = scale * det::exp(logp[i]);
    target.subtract(seed, grad);
  });
}

KernelDef summing_kernel(const char* op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch);
  def.workspace_bytes = [](const KernelQuery& query) {
    return loss_workspace(rows_of(query.in[0]), classes_of(query.in[0]));
  };
  return def;
}

KernelDef gradient_kernel(const char* op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch);
  def.workspace_bytes = [](const KernelQuery& query) {
    const bool narrow = query.out[0].dtype != DType::FP32;
    return narrow ? query.out[0].shape.num_elements() * std::int64_t(sizeof(float)) : 0;
  };
  return def;
}

const KernelRegistration kLogSoftmax{simple_kernel("log_softmax", launch_log_softmax)};
const KernelRegistration kNll{summing_kernel("nll", launch_nll)};
const KernelRegistration kFused{summing_kernel("softmax_cross_entropy", launch_fused)};
const KernelRegistration kNllBackward{gradient_kernel("nll_backward", launch_nll_backward)};
const KernelRegistration kLogSoftmaxBackward{
    gradient_kernel("log_softmax_backward", launch_log_softmax_backward)};
const KernelRegistration kFusedBackward{
    gradient_kernel("softmax_cross_entropy_backward", launch_fused_backward)};

}  // namespace
}  // namespace tr::cpu
