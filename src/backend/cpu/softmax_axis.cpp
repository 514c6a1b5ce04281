// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax_axis, and their gradients.
#include <cmath>

#include "backend/cpu/broadcast.h"
#include "core/det_math.h"

namespace tr::cpu {
namespace {

/// x as [outer, length, inner], `length` along the axis.
struct Lines {
  std::int64_t outer = 1, length = 1, inner = 1;

  Lines(const Attrs& attrs, const Shape& x) {
    const std::int64_t given = attrs.i64("axis");
    const int axis = int(given < 0 ? given + x.rank() : given);
    for (int i = 0; i < x.rank(); ++i) (i < axis ? outer : i > axis ? inner : length) *= x[i];
  }
  /// Lines that lie side by side and are computed together.
  std::int64_t together() const { return std::min<std::int64_t>(inner, 64); }
};

/// Calls f(first element, lines side by side).
template <typename F>
void for_lines(const KernelArgs& args, const Lines& lines, F&& f) {
  const std::int64_t across = ceil_div(lines.inner, lines.together());
  for_chunks(args.pool(), lines.outer * across, rows_per_task(lines.length * lines.together()),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t unit = begin; unit < end; ++unit) {
                 const std::int64_t first = unit % across * lines.together();
                 const std::int64_t at = unit / across * lines.length * lines.inner + first;
                 f(at, std::min(lines.together(), lines.inner - first));
               }
             });
}

/// Running values of 64 lines side by side; single lines are short loops of one.
struct Side {
  float v[64];
};

template <typename T>
float value(const T* x, std::int64_t at) {
  return to_float(x[at]);
}

template <bool kLog, typename T>
void forward_lines(const Lines& s, const T* x, T* y, std::int64_t at, std::int64_t n) {
  Side largest, sum;
  for (std::int64_t j = 0; j < n; ++j) largest.v[j] = value(x, at + j);
  for (std::int64_t i = 1; i < s.length; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const float v = value(x, at + i * s.inner + j);
      largest.v[j] = v > largest.v[j] ? v : largest.v[j];
    }
  }
  std::fill_n(sum.v, n, 0.0f);
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      sum.v[j] += det::exp(value(x, at + i * s.inner + j) - largest.v[j]);
    }
  }
  for (std::int64_t j = 0; j < n; ++j) sum.v[j] = kLog ? std::log(sum.v[j]) : 1 / sum.v[j];
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t place = at + i * s.inner + j;
      const float d = value(x, place) - largest.v[j];
      y[place] = from_float<T>(kLog ? d - sum.v[j] : det::exp(d) * sum.v[j]);
    }
  }
}

template <bool kLog, typename T>
void backward_lines(const Lines& s, const T* dy, const T* y, T* dx, std::int64_t at,
                    std::int64_t n) {
  Side sum;
  std::fill_n(sum.v, n, 0.0f);
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t place = at + i * s.inner + j;
      sum.v[j] += kLog ? value(dy, place) : value(dy, place) * value(y, place);
    }
  }
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t place = at + i * s.inner + j;
      const float d = value(dy, place), v = value(y, place);
      dx[place] = from_float<T>(kLog ? d - det::exp(v) * sum.v[j] : v * (d - sum.v[j]));
    }
  }
}

template <bool kLog>
void launch_forward(const KernelArgs& args) {
  const Lines lines(args.attrs(), args.in_type(0).shape);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_lines(args, lines, [&](std::int64_t at, std::int64_t n) {
      forward_lines<kLog, T>(lines, args.in<T>(0), args.out<T>(0), at, n);
    });
  });
}

template <bool kLog>
void launch_backward(const KernelArgs& args) {
  const Lines lines(args.attrs(), args.in_type(0).shape);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_lines(args, lines, [&](std::int64_t at, std::int64_t n) {
      backward_lines<kLog, T>(lines, args.in<T>(0), args.in<T>(1), args.out<T>(0), at, n);
    });
  });
}

const KernelRegistration kSoftmax{
    simple_kernel("softmax", launch_forward<false>, refuse_unless_floating)};
const KernelRegistration kSoftmaxBackward{
    simple_kernel("softmax_backward", launch_backward<false>, refuse_unless_floating)};
const KernelRegistration kLogSoftmax{
    simple_kernel("log_softmax_axis", launch_forward<true>, refuse_unless_floating)};
const KernelRegistration kLogSoftmaxBackward{
    simple_kernel("log_softmax_axis_backward", launch_backward<true>, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cpu
