// SPDX-License-Identifier: Apache-2.0
// scale and full_like.
#include <algorithm>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

void launch_scale(const KernelArgs& args) {
  const float factor = args.attrs().f32("factor");
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    const std::int64_t count = args.in_type(0).shape.num_elements();
    for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
      float wide[kRowBlock], result[kRowBlock];
      for (std::int64_t i = begin; i < end; i += kRowBlock) {
        const std::int64_t n = std::min(kRowBlock, end - i);
        const float* from = as_floats(x + i, wide, n);
        float* into = result_floats(y + i, result);
        for (std::int64_t j = 0; j < n; ++j) into[j] = factor * from[j];
        put_floats(y + i, into, n);
      }
    });
  });
}

void launch_full_like(const KernelArgs& args) {
  float* y = args.out<float>(0);
  const float value = args.attrs().f32("value");
  for_chunks(args.pool(), args.out_type(0).shape.num_elements(), kStreamChunk,
             [&](std::int64_t begin, std::int64_t end) { std::fill(y + begin, y + end, value); });
}

const KernelRegistration kScale{simple_kernel("scale", launch_scale, refuse_unless_floating)};
const KernelRegistration kFullLike{simple_kernel("full_like", launch_full_like)};

}  // namespace
}  // namespace tr::cpu
