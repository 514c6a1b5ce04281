// SPDX-License-Identifier: Apache-2.0
#pragma once

// Launches of elementwise functors of one input (backend/elementwise_functors.h, math_functors.h).

#include <string>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {

/// y[i] = f(x[i])
template <typename F>
void map_forward(const KernelArgs& args, const F& f) {
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    const std::int64_t count = args.in_type(0).shape.num_elements();
    for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
      float widened[kRowBlock], result[kRowBlock];
      for (std::int64_t i = begin; i < end; i += kRowBlock) {
        const std::int64_t n = std::min(kRowBlock, end - i);
        const float* from = as_floats(x + i, widened, n);
        float* into = result_floats(y + i, result);
        for (std::int64_t j = 0; j < n; ++j) into[j] = f(from[j]);
        put_floats(y + i, into, n);
      }
    });
  });
}

/// dx[i] = f.grad(saved[i], dy[i]) from dy, saved
template <typename F>
void map_backward(const KernelArgs& args, const F& f) {
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = args.in<T>(0);
    const T* saved = args.in<T>(1);
    T* dx = args.out<T>(0);
    const std::int64_t count = args.in_type(0).shape.num_elements();
    for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
      float wide_dy[kRowBlock], wide_saved[kRowBlock], result[kRowBlock];
      for (std::int64_t i = begin; i < end; i += kRowBlock) {
        const std::int64_t n = std::min(kRowBlock, end - i);
        const float *at = as_floats(saved + i, wide_saved, n), *d = as_floats(dy + i, wide_dy, n);
        float* into = result_floats(dx + i, result);
        for (std::int64_t j = 0; j < n; ++j) into[j] = f.grad(at[j], d[j]);
        put_floats(dx + i, into, n);
      }
    });
  });
}

/// All inputs and outputs share one floating dtype.
inline std::string refuse_mixed(const KernelQuery& query) {
  for (const TensorType& type : query.in) {
    if (type.dtype != query.in.front().dtype) {
      return fmt::format("the inputs are {} and {}, expected one dtype", query.in.front().dtype,
                         type.dtype);
    }
  }
  return refuse_unless_floating(query);
}

}  // namespace tr::cpu
