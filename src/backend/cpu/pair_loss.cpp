// SPDX-License-Identifier: Apache-2.0
// Losses of a prediction against a target of its shape (src/backend/loss_functors.h).
#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/loss_sum.h"
#include "backend/loss_functors.h"

namespace tr::cpu {
namespace {

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
  const Loss loss(args, 0);
  const double divisor = Loss::kMean ? double(size.elements) : 1.0;
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
        sum += double(sum_of(
            n, [&](std::int64_t j) { return loss.loss(values[j], target[at + j], at + j); }));
      }
      return sum / divisor;
    });
  });
}

template <typename Loss>
void launch_backward(const KernelArgs& args) {
  const Sizes size(args.in_type(1).shape);
  const Loss loss(args, 1);
  const float scale = args.in<float>(0)[0] / (Loss::kMean ? float(size.elements) : 1.0f);
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
                     into[j] = scale * loss.grad(values[j], target[i + j], i + j);
                   }
                   put_floats(dy + i, into, n);
                 }
               });
  });
}

KernelDef loss_kernel(const std::string& op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch, refuse_unless_floating);
  def.workspace_bytes = [](const KernelQuery& query) {
    const Sizes size(query.in[0].shape);
    return loss_workspace(size.samples, size.elements);
  };
  return def;
}

/// bce_with_logits, with a weight of target 1 where it is given.
void launch_bce(const KernelArgs& args) {
  if (args.has_in(2)) return launch_loss<losses::WeightedBce>(args);
  launch_loss<losses::BceWithLogits>(args);
}
void launch_bce_backward(const KernelArgs& args) {
  if (args.has_in(3)) return launch_backward<losses::WeightedBce>(args);
  launch_backward<losses::BceWithLogits>(args);
}

const bool kRegistered = [] {
  losses::for_each([&]<typename Loss>() {
    constexpr bool kWeighted = std::is_same_v<Loss, losses::BceWithLogits>;
    const std::string name = Loss::kName;
    const KernelRegistration forward{loss_kernel(name, kWeighted ? launch_bce : launch_loss<Loss>)};
    const KernelRegistration backward{
        simple_kernel(name + "_backward", kWeighted ? launch_bce_backward : launch_backward<Loss>,
                      refuse_unless_floating)};
  });
  return true;
}();

}  // namespace
}  // namespace tr::cpu
