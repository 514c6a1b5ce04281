// SPDX-License-Identifier: Apache-2.0
// Losses of a prediction against a target of its shape: mse, bce_with_logits.
#include <cmath>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/loss_sum.h"
#include "core/det_math.h"

namespace tr::cpu {
namespace {

struct Mse {
  static float loss(float y, float t) { return (y - t) * (y - t); }
  static float grad(float y, float t) { return 2.0f * (y - t); }
};

struct BceWithLogits {
  static float loss(float y, float t) {
    return (y > 0 ? y : y * 0.0f) - y * t + std::log1p(det::exp(-std::abs(y)));
  }
  static float grad(float y, float t) { return 1.0f / (1.0f + det::exp(-y)) - t; }
};

/// Samples and the elements of one.
struct Sizes {
  std::int64_t samples;
  std::int64_t elements;

  explicit Sizes(const Shape& shape)
      : samples(shape[0]), elements(samples == 0 ? 0 : shape.num_elements() / samples) {}
};

template <typename Loss>
void launch_loss(const KernelArgs& args) {
  const Sizes size(args.in_type(0).shape);
  const float* target = args.in<float>(1);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    const auto* y = args.in<typename decltype(tag)::type>(0);
    args.out<float>(0)[0] = sum_rows(args, size.samples, size.elements, [&](std::int64_t row) {
      float widened[kRowBlock];
      double sum = 0;
      for (std::int64_t i = 0; i < size.elements; i += kRowBlock) {
        const std::int64_t at = row * size.elements + i;
        const std::int64_t n = std::min(kRowBlock, size.elements - i);
        const float* values = as_floats(y + at, widened, n);
        sum += double(
            sum_of(n, [&](std::int64_t j) { return Loss::loss(values[j], target[at + j]); }));
      }
      return sum / double(size.elements);
    });
  });
}

template <typename Loss>
void launch_backward(const KernelArgs& args) {
  const Sizes size(args.in_type(1).shape);
  const float scale = args.in<float>(0)[0] / float(size.elements);
  const float* target = args.in<float>(2);
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* y = args.in<T>(1);
    T* dy = args.out<T>(0);
    for_chunks(args.pool(), size.samples * size.elements, kStreamChunk,
               [&](std::int64_t begin, std::int64_t end) {
                 float widened[kRowBlock], result[kRowBlock];
                 for (std::int64_t i = begin; i < end; i += kRowBlock) {
                   const std::int64_t n = std::min(kRowBlock, end - i);
                   const float* values = as_floats(y + i, widened, n);
                   float* into = result_floats(dy + i, result);
                   for (std::int64_t j = 0; j < n; ++j) {
                     into[j] = scale * Loss::grad(values[j], target[i + j]);
                   }
                   put_floats(dy + i, into, n);
                 }
               });
  });
}

KernelDef loss_kernel(const char* op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch, refuse_unless_floating);
  def.workspace_bytes = [](const KernelQuery& query) {
    const Sizes size(query.in[0].shape);
    return loss_workspace(size.samples, size.elements);
  };
  return def;
}

const KernelRegistration kMse{loss_kernel("mse", launch_loss<Mse>)};
const KernelRegistration kBce{loss_kernel("bce_with_logits", launch_loss<BceWithLogits>)};
const KernelRegistration kMseBackward{
    simple_kernel("mse_backward", launch_backward<Mse>, refuse_unless_floating)};
const KernelRegistration kBceBackward{simple_kernel(
    "bce_with_logits_backward", launch_backward<BceWithLogits>, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cpu
