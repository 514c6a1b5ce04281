// SPDX-License-Identifier: Apache-2.0
// add and mul with broadcasting, their gradients reduce_to and mul_reduce, and cast.
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

struct Plus {
  float operator()(float a, float b) const { return a + b; }
};
struct Times {
  float operator()(float a, float b) const { return a * b; }
};

template <typename Op, typename T>
void combine_row(const T* a, const T* b, bool repeat_b, T* y, std::int64_t columns) {
  constexpr Op op;
  float wide_a[kRowBlock], wide_b[kRowBlock], result[kRowBlock];
  for (std::int64_t i = 0; i < columns; i += kRowBlock) {
    const std::int64_t n = std::min(kRowBlock, columns - i);
    const float* left = as_floats(a + i, wide_a, n);
    float* into = result_floats(y + i, result);
    if (repeat_b) {
      const float value = to_float(b[0]);
      for (std::int64_t j = 0; j < n; ++j) into[j] = op(left[j], value);
    } else {
      const float* right = as_floats(b + i, wide_b, n);
      for (std::int64_t j = 0; j < n; ++j) into[j] = op(left[j], right[j]);
    }
    put_floats(y + i, into, n);
  }
}

/// y = op(a, b), b repeated to the shape of a.
template <typename Op>
void launch_combine(const KernelArgs& args) {
  const Shape& shape = args.in_type(0).shape;
  const std::int64_t count = shape.num_elements();
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *a = args.in<T>(0), *b = args.in<T>(1);
    T* y = args.out<T>(0);
    if (shape == args.in_type(1).shape) {
      for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
        combine_row<Op>(a + begin, b + begin, false, y + begin, end - begin);
      });
      return;
    }
    if (count == 0) return;
    const Broadcast map(shape, args.in_type(1).shape);
    const std::int64_t columns = map.columns();
    for_chunks(args.pool(), count / columns, rows_per_task(columns),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   combine_row<Op>(a + row * columns, b + map.offset_of_row(row),
                                   map.repeats_columns(), y + row * columns, columns);
                 }
               });
  });
}

/// What reduce_to sums: the elements of x.
template <typename T>
struct Elements {
  const T* x;
  const float* at(std::int64_t i, float* buffer, std::int64_t n) const {
    return as_floats(x + i, buffer, n);
  }
};
/// What mul_reduce sums: products, never rounded to T.
template <typename T>
struct Products {
  const T *a, *b;
  const float* at(std::int64_t i, float* buffer, std::int64_t n) const {
    float wide_a[kRowBlock], wide_b[kRowBlock];
    const float *left = as_floats(a + i, wide_a, n), *right = as_floats(b + i, wide_b, n);
    for (std::int64_t j = 0; j < n; ++j) buffer[j] = left[j] * right[j];
    return buffer;
  }
};

/// sums[i] (+)= each row of the source that falls on it, one after the other.
template <typename Source>
void reduce_rows(const Source& source, const Broadcast& map, std::int64_t rows, std::int64_t begin,
                 std::int64_t end, float* sums) {
  float buffer[kRowBlock];
  for (std::int64_t row = 0; row < rows; ++row) {
    float* into = sums + map.offset_of_row(row);
    for (std::int64_t i = begin; i < end; i += kRowBlock) {
      const std::int64_t n = std::min(kRowBlock, end - i);
      const float* values = source.at(row * map.columns() + i, buffer, n);
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

/// Sums the source, of the shape of input 0, to the shape of the output. make(tag) gives it.
template <typename Make>
void reduce(const KernelArgs& args, Make&& make) {
  const Shape& shape = args.in_type(0).shape;
  const std::int64_t outputs = args.out_type(0).shape.num_elements();
  auto* sums = reinterpret_cast<float*>(args.workspace());
  std::fill_n(sums, outputs, 0.0f);
  const Broadcast map(shape, args.out_type(0).shape);
  const std::int64_t columns = map.columns();
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    const auto source = make(tag);
    const std::int64_t rows = columns == 0 ? 0 : shape.num_elements() / columns;
    const std::int64_t chunk =
        map.repeats_columns() ? std::max<std::int64_t>(1, columns) : kReduceColumns;
    for_chunks(args.pool(), columns, chunk, [&](std::int64_t begin, std::int64_t end) {
      reduce_rows(source, map, rows, begin, end, sums);
    });
  });
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    store_floats(sums, args.out<T>(0), outputs);
  });
}

void launch_reduce_to(const KernelArgs& args) {
  reduce(args, [&](auto tag) {
    return Elements<typename decltype(tag)::type>{args.in<typename decltype(tag)::type>(0)};
  });
}

void launch_mul_reduce(const KernelArgs& args) {
  reduce(args, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Products<T>{args.in<T>(0), args.in<T>(1)};
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

KernelDef reducing_kernel(const std::string& op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch, [](const KernelQuery& query) {
    return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
  });
  def.workspace_bytes = [](const KernelQuery& query) {
    return query.out[0].shape.num_elements() * std::int64_t(sizeof(float));
  };
  return def;
}

const KernelRegistration kAdd{simple_kernel("add", launch_combine<Plus>, refuse_unless_floating)};
const KernelRegistration kMul{simple_kernel("mul", launch_combine<Times>, refuse_unless_floating)};
const KernelRegistration kReduceTo{reducing_kernel("reduce_to", launch_reduce_to)};
const KernelRegistration kMulReduce{reducing_kernel("mul_reduce", launch_mul_reduce)};
const KernelRegistration kCast{simple_kernel("cast", launch_cast, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cpu
