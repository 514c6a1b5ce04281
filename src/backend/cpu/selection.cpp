// SPDX-License-Identifier: Apache-2.0
// where, masked_fill, tril and triu: elements are moved, none is computed.
#include <algorithm>

#include "backend/cpu/broadcast.h"
#include "tensor/convert.h"
#include "tensor/dispatch.h"

namespace tr::cpu {
namespace {

/// A tensor of any dtype that is broadcast to a large shape.
template <typename T>
struct Place {
  const T* data;
  Broadcast map;

  Place(const KernelArgs& args, int i, const Shape& large)
      : data(args.in<T>(i)), map(large, args.in_type(i).shape) {}
  /// Where column 0 of the row lies, and the step from column to column.
  const T* row(std::int64_t row) const { return data + map.offset_of_row(row); }
  std::int64_t step() const { return map.repeats_columns() ? 0 : 1; }
};

void launch_where(const KernelArgs& args) {
  const Shape& out = args.out_type(0).shape;
  const Place<bool> condition(args, 0, out);
  dispatch_dtype(args.out_type(0).dtype, [&](auto tag) {
    using T = decltype(tag);
    const Place<T> a(args, 1, out), b(args, 2, out);
    T* y = args.out<T>(0);
    const std::int64_t columns = condition.map.columns();
    for_row_runs(args.pool(), out, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
      const bool* holds = condition.row(row);
      const T *left = a.row(row), *right = b.row(row);
      T* to = y + row * columns;
      for (std::int64_t j = column; j < column + n; ++j) {
        to[j] = holds[j * condition.step()] ? left[j * a.step()] : right[j * b.step()];
      }
    });
  });
}

void launch_masked_fill(const KernelArgs& args) {
  const Shape& out = args.out_type(0).shape;
  const Place<bool> mask(args, 1, out);
  const bool where_false = args.attrs().flag("where_false");
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T value = from_float<T>(args.attrs().f32("value"));
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    const std::int64_t columns = mask.map.columns();
    for_row_runs(args.pool(), out, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
      const bool* holds = mask.row(row);
      for (std::int64_t j = column; j < column + n; ++j) {
        const std::int64_t at = row * columns + j;
        y[at] = holds[j * mask.step()] != where_false ? value : x[at];
      }
    });
  });
}

/// Row i of each matrix keeps columns [0, i + diagonal] (lower) or [i + diagonal, columns).
template <bool kLower>
void launch_triangle(const KernelArgs& args) {
  const Shape& out = args.out_type(0).shape;
  const std::int64_t rows = out[-2], columns = out[-1];
  const std::int64_t diagonal = std::clamp(args.attrs().i64("diagonal"), -rows - 1, columns + 1);
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T value = from_float<T>(args.attrs().f32("value"));
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    for_row_runs(args.pool(), out, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
      const std::int64_t edge = row % rows + diagonal;
      for (std::int64_t j = column; j < column + n; ++j) {
        const std::int64_t at = row * columns + j;
        y[at] = (kLower ? j <= edge : j >= edge) ? x[at] : value;
      }
    });
  });
}

std::string refuse_data(const KernelQuery& query) {
  return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
}

const KernelRegistration kWhere{simple_kernel("where", launch_where)};
const KernelRegistration kMaskedFill{simple_kernel("masked_fill", launch_masked_fill, refuse_data)};
const KernelRegistration kTril{simple_kernel("tril", launch_triangle<true>, refuse_data)};
const KernelRegistration kTriu{simple_kernel("triu", launch_triangle<false>, refuse_data)};

}  // namespace
}  // namespace tr::cpu
