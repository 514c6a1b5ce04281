// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/class_rows.cuh"
#include "backend/cuda/dispatch.h"

namespace tr::cuda {
namespace {

/// Both counts in one sum: top 1 in the lower half, top k in the upper one.
using Counts = long long;
constexpr int kUpper = 32;

/// A row's place of its label is the number of classes that stand before it: larger scores, and
/// equal ones of lower classes. A NaN stands before everything; a label outside the classes, or
/// with a NaN score, stands last.
template <int kGroup, typename T, typename Label>
__global__ void __launch_bounds__(kLargestBlock)
    topk_kernel(const T* scores, const Label* labels, std::int64_t rows, std::int64_t classes,
                std::int64_t k, std::int32_t* correct, GridSum<Counts> grid_sum) {
  using Loop = RowLoop<kGroup>;
  const std::int64_t top1 = min(std::int64_t(1), classes), top_k = min(k, classes);
  Counts counts = 0;
  for (std::int64_t n = Loop::first(); n < rows; n += Loop::stride()) {
    const T* from = scores + n * classes;
    const std::int64_t label = labels[n];
    if (label < 0 || label >= classes) continue;  // the whole group leaves together
    const float own = to_float(from[label]);
    const Row<kGroup, T> row(from, classes);
    const int before = row.sum([&](std::int64_t i, float score) {
      return !(score <= own) || (score == own && i < label) ? 1 : 0;
    });
    if (Loop::lane() == 0) {
      counts += (before < top1 ? 1 : 0) + (Counts(before < top_k ? 1 : 0) << kUpper);
    }
  }
  grid_sum(counts, [&](Counts sum) {
    correct[0] = std::int32_t(sum);
    correct[1] = std::int32_t(sum >> kUpper);
  });
}

LaunchShape plan(const KernelQuery& query) {
  return row_shape(query.in[0].shape[0], query.in[0].shape[1]);
}

void launch_topk(const KernelArgs& args, const LaunchShape& shape, int ticket) {
  const Shape& scores = args.in_type(0).shape;
  dispatch_float(args.in_type(0).dtype, [&](auto score_tag) {
    using T = typename decltype(score_tag)::type;
    dispatch_index(args.in_type(1).dtype, [&](auto label_tag) {
      using Label = typename decltype(label_tag)::type;
      dispatch_group(scores[1], [&](auto group) {
        launch(args, shape, topk_kernel<decltype(group)::value, T, Label>, args.in<T>(0),
               args.in<Label>(1), scores[0], scores[1], args.attrs().i64("k"),
               args.out<std::int32_t>(0), grid_sum_of<Counts>(args, ticket));
      });
    });
  });
}

const KernelRegistration kTopk{summing_kernel({"topk_correct", plan, launch_topk})};

}  // namespace
}  // namespace tr::cuda
