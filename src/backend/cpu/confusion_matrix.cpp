// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/dispatch.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

/// The class of the largest score, the lower one of equal ones; -1 if there is a NaN.
template <typename T>
std::int32_t largest_of(const T* scores, std::int64_t classes) {
  std::int64_t best = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const float score = to_float(scores[c]);
    if (score != score) return -1;
    if (score > to_float(scores[best])) best = c;
  }
  return std::int32_t(best);
}

void launch(const KernelArgs& args) {
  const std::int64_t rows = args.in_type(0).shape[0], classes = args.in_type(0).shape[1];
  auto* predicted = reinterpret_cast<std::int32_t*>(args.workspace());  // [rows]
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    const auto* scores = args.in<typename decltype(tag)::type>(0);
    for_chunks(args.pool(), rows, rows_per_task(classes),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row)
                   predicted[row] = largest_of(scores + row * classes, classes);
               });
  });
  auto* matrix = args.state<std::int32_t>(2);
  dispatch_index(args.in_type(1).dtype, [&](auto tag) {
    const auto* labels = args.in<typename decltype(tag)::type>(1);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t label = labels[row];
      if (predicted[row] < 0 || label < 0 || label >= classes) continue;
      ++matrix[label * classes + predicted[row]];
    }
  });
}

const KernelRegistration kConfusionMatrix{[] {
  KernelDef def = simple_kernel("confusion_matrix", launch);
  def.workspace_bytes = [](const KernelQuery& query) {
    return query.in[0].shape[0] * std::int64_t(sizeof(std::int32_t));
  };
  return def;
}()};

}  // namespace
}  // namespace tr::cpu
