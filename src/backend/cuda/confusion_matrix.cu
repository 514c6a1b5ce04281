// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/class_rows.cuh"
#include "backend/cuda/dispatch.h"

namespace tr::cuda {
namespace {

/// A warp a row. Sums of integers do not depend on their order.
template <typename T, typename Label>
__global__ void confusion_kernel(const T* scores, const Label* labels, std::int64_t rows,
                                 std::int64_t classes, std::int32_t* matrix) {
  using Loop = RowLoop<kWarp>;
  for (std::int64_t n = Loop::first(); n < rows; n += Loop::stride()) {
    float best = -INFINITY;
    std::int64_t place = classes;
    bool has_nan = false;
    for (std::int64_t c = Loop::lane(); c < classes; c += kWarp) {
      const float score = to_float(scores[n * classes + c]);
      has_nan = has_nan || score != score;
      if (score > best || (score == best && c < place)) {
        best = score;
        place = c;
      }
    }
    for (int width = kWarp / 2; width > 0; width /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best, width);
      const std::int64_t its_place = __shfl_xor_sync(0xffffffffu, place, width);
      if (other > best || (other == best && its_place < place)) {
        best = other;
        place = its_place;
      }
    }
    has_nan = __any_sync(0xffffffffu, has_nan) != 0;
    const std::int64_t label = labels[n];
    if (Loop::lane() != 0 || has_nan || label < 0 || label >= classes) continue;
    atomicAdd(matrix + label * classes + place, 1);
  }
}

void launch_confusion(const KernelArgs& args) {
  const Shape& shape = args.in_type(0).shape;
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_index(args.in_type(1).dtype, [&](auto label_tag) {
      using Label = typename decltype(label_tag)::type;
      launch(args, shape_for(shape[0] * kWarp, kRowBlock, kMaxRowBlocks),
             confusion_kernel<T, Label>, args.in<T>(0), args.in<Label>(1), shape[0], shape[1],
             args.state<std::int32_t>(2));
    });
  });
}

const KernelRegistration kConfusionMatrix{simple_kernel("confusion_matrix", launch_confusion)};

}  // namespace
}  // namespace tr::cuda
