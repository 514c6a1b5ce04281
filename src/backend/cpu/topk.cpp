// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/dispatch.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

/// Classes that stand before `label`: larger scores, and equal ones of lower classes. A NaN stands
/// before everything; a label outside the classes, or with a NaN score, stands last.
template <typename T>
std::int64_t rank_of(const T* scores, std::int64_t classes, std::int64_t label) {
  if (label < 0 || label >= classes) return classes;
  const float own = to_float(scores[label]);
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < classes; ++i) {
    const float score = to_float(scores[i]);
    before += !(score <= own) || (score == own && i < label) ? 1 : 0;
  }
  return before;
}

void launch(const KernelArgs& args) {
  const std::int64_t rows = args.in_type(0).shape[0], classes = args.in_type(0).shape[1];
  const std::int64_t chunk = rows_per_task(classes), k = args.attrs().i64("k");
  auto* partial = reinterpret_cast<std::int32_t*>(args.workspace());  // [tasks, 2]
  dispatch_float(args.in_type(0).dtype, [&](auto score_tag) {
    const auto* scores = args.in<typename decltype(score_tag)::type>(0);
    dispatch_index(args.in_type(1).dtype, [&](auto label_tag) {
      const auto* labels = args.in<typename decltype(label_tag)::type>(1);
      for_chunks(args.pool(), rows, chunk, [&](std::int64_t begin, std::int64_t end) {
        std::int32_t top1 = 0, top5 = 0;
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t rank = rank_of(scores + row * classes, classes, labels[row]);
          top1 += rank < std::min<std::int64_t>(1, classes) ? 1 : 0;
          top5 += rank < std::min(k, classes) ? 1 : 0;
        }
        partial[begin / chunk * 2] = top1;
        partial[begin / chunk * 2 + 1] = top5;
      });
    });
  });
  auto* correct = args.out<std::int32_t>(0);
  correct[0] = correct[1] = 0;
  for (std::int64_t task = 0; task < ceil_div(rows, chunk); ++task) {
    correct[0] += partial[2 * task];
    correct[1] += partial[2 * task + 1];
  }
}

KernelDef topk_kernel() {
  KernelDef def = simple_kernel("topk_correct", launch);
  def.workspace_bytes = [](const KernelQuery& query) {
    const Shape& shape = query.in[0].shape;
    return ceil_div(shape[0], rows_per_task(shape[1])) * 2 * std::int64_t(sizeof(std::int32_t));
  };
  return def;
}

const KernelRegistration kTopk{topk_kernel()};

}  // namespace
}  // namespace tr::cpu
