// SPDX-License-Identifier: Apache-2.0
// add with broadcasting, its gradient reduce_to, and cast.
#include <array>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/partition.h"
#include "backend/cpu/sums.h"

namespace tr::cpu {
namespace {

constexpr int kMaxRank = Shape::kMaxRank;

/// How a small shape repeats inside a large one, axes aligned at the back: step of the small
/// tensor's element for one step along each axis of the large one, 0 where it repeats.
struct Broadcast {
  int rank = 0;
  std::array<std::int64_t, kMaxRank> dims{};  // of the large one
  std::array<std::int64_t, kMaxRank> steps{};

  Broadcast(const Shape& large, const Shape& small) : rank(large.rank()) {
    std::int64_t step = 1;
    for (int axis = rank - 1, at = small.rank() - 1; axis >= 0; --axis, --at) {
      dims[std::size_t(axis)] = large[axis];
      const std::int64_t length = at >= 0 ? small[at] : 1;
      steps[std::size_t(axis)] = length == 1 ? 0 : step;
      step *= length;
    }
  }
  std::int64_t columns() const { return rank == 0 ? 1 : dims[std::size_t(rank - 1)]; }
  bool repeats_columns() const { return rank == 0 || steps[std::size_t(rank - 1)] == 0; }
  /// Element of the small tensor where row `row` of the large one begins.
  std::int64_t offset_of_row(std::int64_t row) const {
    std::int64_t offset = 0;
    for (int axis = rank - 2; axis >= 0; --axis) {
      offset += row % dims[std::size_t(axis)] * steps[std::size_t(axis)];
      row /= dims[std::size_t(axis)];
    }
    return offset;
  }
};

template <typename T>
void add_row(const T* a, const T* b, bool repeat_b, T* y, std::int64_t columns) {
  float wide_a[kRowBlock], wide_b[kRowBlock], result[kRowBlock];
  for (std::int64_t i = 0; i < columns; i += kRowBlock) {
    const std::int64_t n = std::min(kRowBlock, columns - i);
    const float* left = as_floats(a + i, wide_a, n);
    float* into = result_floats(y + i, result);
    if (repeat_b) {
      const float value = to_float(b[0]);
      for (std::int64_t j = 0; j < n; ++j) into[j] = left[j] + value;
    } else {
      const float* right = as_floats(b + i, wide_b, n);
      for (std::int64_t j = 0; j < n; ++j) into[j] = left[j] + right[j];
    }
    put_floats(y + i, into, n);
  }
}

void launch_add(const KernelArgs& args) {
  const Shape& shape = args.in_type(0).shape;
  const std::int64_t count = shape.num_elements();
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *a = args.in<T>(0), *b = args.in<T>(1);
    T* y = args.out<T>(0);
    if (shape == args.in_type(1).shape) {
      for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
        add_row(a + begin, b + begin, false, y + begin, end - begin);
      });
      return;
    }
    if (count == 0) return;
    const Broadcast map(shape, args.in_type(1).shape);
    const std::int64_t columns = map.columns();
    for_chunks(args.pool(), count / columns, rows_per_task(columns),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   add_row(a + row * columns, b + map.offset_of_row(row), map.repeats_columns(),
                           y + row * columns, columns);
                 }
               });
  });
}

/// sums[i] (+)= each row of x that falls on it, one after the other: the order of x.
template <typename T>
void reduce_rows(const T* x, const Broadcast& map, std::int64_t rows, std::int64_t begin,
                 std::int64_t end, float* sums) {
  float widened[kRowBlock];
  for (std::int64_t row = 0; row < rows; ++row) {
    float* into = sums + map.offset_of_row(row);
    const T* from = x + row * map.columns();
    for (std::int64_t i = begin; i < end; i += kRowBlock) {
      const std::int64_t n = std::min(kRowBlock, end - i);
      const float* values = as_floats(from + i, widened, n);
      if (map.repeats_columns()) {
        *into += sum_of(n, [&](std::int64_t j) { return values[j]; });
      } else {
        for (std::int64_t j = 0; j < n; ++j) into[i + j] += values[j];
      }
    }
  }
}

/// Columns that one task sums, all rows of them: a cut by shape alone.
constexpr std::int64_t kReduceColumns = 256;

void launch_reduce_to(const KernelArgs& args) {
  const Shape& shape = args.in_type(0).shape;
  const std::int64_t outputs = args.out_type(0).shape.num_elements();
  auto* sums = reinterpret_cast<float*>(args.workspace());
  std::fill_n(sums, outputs, 0.0f);
  const Broadcast map(shape, args.out_type(0).shape);
  const std::int64_t columns = map.columns();
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    const std::int64_t rows = columns == 0 ? 0 : shape.num_elements() / columns;
    const std::int64_t chunk =
        map.repeats_columns() ? std::max<std::int64_t>(1, columns) : kReduceColumns;
    for_chunks(args.pool(), columns, chunk, [&](std::int64_t begin, std::int64_t end) {
      reduce_rows(x, map, rows, begin, end, sums);
    });
  });
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    store_floats(sums, args.out<T>(0), outputs);
  });
}

void launch_cast(const KernelArgs& args) {
  const std::int64_t count = args.in_type(0).shape.num_elements();
  dispatch_float(args.in_type(0).dtype, [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    dispatch_float(args.out_type(0).dtype, [&](auto to_tag) {
      using To = typename decltype(to_tag)::type;
      const From* x = args.in<From>(0);
      To* y = args.out<To>(0);
      for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
        float widened[kRowBlock];
        for (std::int64_t i = begin; i < end; i += kRowBlock) {
          const std::int64_t n = std::min(kRowBlock, end - i);
          store_floats(as_floats(x + i, widened, n), y + i, n);
        }
      });
    });
  });
}

KernelDef reduce_to_kernel() {
  KernelDef def = simple_kernel("reduce_to", launch_reduce_to, [](const KernelQuery& query) {
    return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
  });
  def.workspace_bytes = [](const KernelQuery& query) {
    return query.out[0].shape.num_elements() * std::int64_t(sizeof(float));
  };
  return def;
}

const KernelRegistration kAdd{simple_kernel("add", launch_add, refuse_unless_floating)};
const KernelRegistration kReduceTo{reduce_to_kernel()};
const KernelRegistration kCast{simple_kernel("cast", launch_cast, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cpu
