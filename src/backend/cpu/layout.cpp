// SPDX-License-Identifier: Apache-2.0
// permute, transpose, slice and its gradient: elements are moved by strides.
#include "ops/layout.h"

#include <cstring>

#include "backend/cpu/broadcast.h"

namespace tr::cpu {
namespace {

/// An integer as wide as an element.
template <typename F>
void dispatch_width(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 8: return f(TypeTag<std::uint64_t>{});
    case 4: return f(TypeTag<std::uint32_t>{});
    case 2: return f(TypeTag<std::uint16_t>{});
    default: return f(TypeTag<std::uint8_t>{});
  }
}

/// Calls f(row of the view, first element of the source, n, step) for runs along its last axis.
template <typename F>
void for_view_runs(ThreadPool& pool, const StridedView& view, F&& f) {
  const int last = view.shape.rank() - 1;
  const std::int64_t step = last < 0 ? 1 : view.steps[std::size_t(last)];
  for_row_runs(pool, view.shape, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    std::int64_t at = view.begin + column * step, rest = row;
    for (int axis = last - 1; axis >= 0; --axis) {
      at += rest % view.shape[axis] * view.steps[std::size_t(axis)];
      rest /= view.shape[axis];
    }
    const std::int64_t columns = last < 0 ? 1 : view.shape[last];
    f(row * columns + column, at, n, step);
  });
}

void copy_view(const KernelArgs& args, const StridedView& view) {
  dispatch_width(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    for_view_runs(args.pool(), view,
                  [&](std::int64_t to, std::int64_t from, std::int64_t n, std::int64_t step) {
                    if (step == 1) {
                      std::memcpy(y + to, x + from, std::size_t(n) * sizeof(T));
                    } else {
                      for (std::int64_t j = 0; j < n; ++j) y[to + j] = x[from + j * step];
                    }
                  });
  });
}

void launch_permute(const KernelArgs& args) {
  copy_view(args, permuted_view(args.attrs(), args.in_type(0).shape));
}

void launch_slice(const KernelArgs& args) {
  copy_view(args, sliced_view(args.attrs(), args.in_type(0).shape));
}

void launch_slice_backward(const KernelArgs& args) {
  const StridedView view = sliced_view(args.attrs(), args.out_type(0).shape);
  dispatch_width(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = args.in<T>(0);
    T* dx = args.out<T>(0);
    for_chunks(
        args.pool(), args.out_type(0).shape.num_elements(), kStreamChunk,
        [&](std::int64_t begin, std::int64_t end) { std::fill_n(dx + begin, end - begin, T(0)); });
    for_view_runs(args.pool(), view,
                  [&](std::int64_t from, std::int64_t to, std::int64_t n, std::int64_t step) {
                    for (std::int64_t j = 0; j < n; ++j) dx[to + j * step] = dy[from + j];
                  });
  });
}

const KernelRegistration kPermute{simple_kernel("permute", launch_permute)};
const KernelRegistration kTranspose{simple_kernel("transpose", launch_permute)};
const KernelRegistration kSlice{simple_kernel("slice", launch_slice)};
const KernelRegistration kSliceBackward{simple_kernel("slice_backward", launch_slice_backward)};

}  // namespace
}  // namespace tr::cpu
