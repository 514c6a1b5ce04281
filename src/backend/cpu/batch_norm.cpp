// SPDX-License-Identifier: Apache-2.0
// Batch norm over all axes but the last. Statistics: each chunk of rows gives its mean and the sum
// of squares around it (two passes, the second in the cache), chunks are joined in double, in their
// order: nothing cancels, and bytes do not depend on threads.
#include "backend/cpu/batch_norm_rows.h"
#include "backend/cpu/dispatch.h"

namespace tr::cpu {
namespace {

/// y = (x - mean) * scale + bias by the vectors 0 to 2.
template <typename T>
void normalise(ThreadPool& pool, const WideRows& rows, const T* x, T* y, const NormPlaces& v) {
  for_tasks(pool, rows.num_chunks(), [&](std::int64_t chunk) {
    float widened[kRowBlock], result[kRowBlock];
    rows.for_runs(chunk, [&](std::int64_t at, std::int64_t column, std::int64_t n) {
      const float* values = as_floats(x + at, widened, n);
      const float *mean = v.vector(0) + column, *scale = v.vector(1) + column;
      const float* bias = v.vector(2) + column;
      float* into = result_floats(y + at, result);
      for (std::int64_t i = 0; i < n; ++i) into[i] = (values[i] - mean[i]) * scale[i] + bias[i];
      put_floats(y + at, into, n);
    });
  });
}

void launch_bn(const KernelArgs& args) {
  const WideRows rows = norm_rows(args.in_type(0));
  const NormPlaces at(args, rows);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    batch_statistics(args, rows, at, x);
    normalise(args.pool(), rows, x, args.out<T>(0), at);
  });
}

/// The running statistics normalise: bn_eval, and bn_frozen with their copies as outputs 1 and 2.
void launch_running(const KernelArgs& args) {
  const WideRows rows = norm_rows(args.in_type(0));
  const NormPlaces at(args, rows);
  running_vectors(args, rows, at);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    normalise(args.pool(), rows, args.in<T>(0), args.out<T>(0), at);
  });
  for (int i = 1; i < args.num_out(); ++i) {
    const float* from = args.in<float>(i + 2);
    float* to = args.out<float>(i);
    if (to != from) std::copy_n(from, rows.channels(), to);  // later micro-batches: one tensor
  }
}

/// Sums of dy (`first`) and of dy (x - mean) (`second`) over a chunk.
template <typename T>
void chunk_gradients(const WideRows& rows, std::int64_t chunk, const T* dy, const T* x,
                     const float* mean, float* first, float* second) {
  std::fill_n(first, rows.width(), 0.0f);
  std::fill_n(second, rows.width(), 0.0f);
  float wide_dy[kRowBlock], wide_x[kRowBlock];
  rows.for_runs(chunk, [&](std::int64_t at, std::int64_t column, std::int64_t n) {
    const float* d = as_floats(dy + at, wide_dy, n);
    const float *values = as_floats(x + at, wide_x, n), *m = mean + column;
    float *sum = first + column, *product = second + column;
    for (std::int64_t i = 0; i < n; ++i) {
      sum[i] += d[i];
      product[i] += d[i] * (values[i] - m[i]);
    }
  });
  rows.fold(first);
  rows.fold(second);
}

/// dx = (dy - shift - (x - mean) * slope) * scale with vectors of the whole width.
template <typename T>
void propagate(ThreadPool& pool, const WideRows& rows, const T* dy, const T* x, T* dx,
               const NormPlaces& v) {
  for_tasks(pool, rows.num_chunks(), [&](std::int64_t chunk) {
    float wide_dy[kRowBlock], wide_x[kRowBlock], result[kRowBlock];
    rows.for_runs(chunk, [&](std::int64_t at, std::int64_t column, std::int64_t n) {
      const float* d = as_floats(dy + at, wide_dy, n);
      const float *values = as_floats(x + at, wide_x, n), *mean = v.vector(0) + column;
      const float *scale = v.vector(1) + column, *shift = v.vector(2) + column;
      const float* slope = v.vector(3) + column;
      float* into = result_floats(dx + at, result);
      for (std::int64_t i = 0; i < n; ++i) {
        into[i] = (d[i] - shift[i] - (values[i] - mean[i]) * slope[i]) * scale[i];
      }
      put_floats(dx + at, into, n);
    });
  });
}

/// dx = dy * scale
template <typename T>
void scale_gradient(ThreadPool& pool, const WideRows& rows, const T* dy, T* dx,
                    const float* scale) {
  for_tasks(pool, rows.num_chunks(), [&](std::int64_t chunk) {
    float widened[kRowBlock], result[kRowBlock];
    rows.for_runs(chunk, [&](std::int64_t at, std::int64_t column, std::int64_t n) {
      const float* d = as_floats(dy + at, widened, n);
      float* into = result_floats(dx + at, result);
      for (std::int64_t i = 0; i < n; ++i) into[i] = d[i] * scale[column + i];
      put_floats(dx + at, into, n);
    });
  });
}

/// Both gradients: of bn with the batch's mean and rstd, of bn_frozen (`frozen`) with the running
/// statistics, which do not depend on x.
template <bool frozen>
void launch_backward(const KernelArgs& args) {
  const WideRows rows = norm_rows(args.in_type(0));
  const NormPlaces at(args, rows);
  const float *weight = args.in<float>(2), *spread = args.in<float>(4);
  std::copy_n(args.in<float>(3), rows.channels(), at.vector(0));
  rows.repeat(at.vector(0));
  float* rstd = at.vector(4);
  std::copy_n(spread, rows.channels(), rstd);
  if constexpr (frozen) {
    const double eps = args.attrs().f64("eps");
    for (std::int64_t c = 0; c < rows.channels(); ++c) {
      rstd[c] = float(1 / std::sqrt(double(spread[c]) + eps));
    }
  }
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *dy = args.in<T>(0), *x = args.in<T>(1);
    for_tasks(args.pool(), rows.num_chunks(), [&](std::int64_t chunk) {
      chunk_gradients(rows, chunk, dy, x, at.vector(0), at.first + chunk * at.width,
                      at.second + chunk * at.width);
    });
    finish_gradients(args, rows, at, weight, rstd);
    if constexpr (frozen) {
      scale_gradient(args.pool(), rows, dy, args.out<T>(0), at.vector(1));
    } else {
      propagate(args.pool(), rows, dy, x, args.out<T>(0), at);
    }
  });
}

KernelDef norm_kernel(const std::string& op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch, refuse_unless_floating);
  def.workspace_bytes = [](const KernelQuery& query) { return NormPlaces::bytes(query.in[0]); };
  return def;
}

const KernelRegistration kBn{norm_kernel("bn", launch_bn)};
const KernelRegistration kBnEval{norm_kernel("bn_eval", launch_running)};
const KernelRegistration kBnFrozen{norm_kernel("bn_frozen", launch_running)};
const KernelRegistration kBnBackward{norm_kernel("bn_backward", launch_backward<false>)};
const KernelRegistration kBnFrozenBackward{
    norm_kernel("bn_frozen_backward", launch_backward<true>)};

}  // namespace
}  // namespace tr::cpu
