// SPDX-License-Identifier: Apache-2.0
// add and mul with broadcasting, their gradients reduce_to and mul_reduce, and cast.
#include "backend/cpu/broadcast.h"
#include "backend/cpu/sums.h"

namespace tr::cpu {
namespace {

struct Plus {
  float operator()(float a, float b) const { return a + b; }
};
struct Times {
  float operator()(float a, float b) const { return a * b; }
};

/// y = op(a, b), both repeated to the shape of y.
template <typename Op>
void launch_combine(const KernelArgs& args) {
  const Shape over = rows_of_output(args, {0, 1});
  const FloatOperand a = float_operand(args, 0, over), b = float_operand(args, 1, over);
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = args.out<T>(0);
    const std::int64_t columns = a.map.columns();
    for_row_runs(args.pool(), over, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
      constexpr Op op;
      float wide_a[kRowBlock], wide_b[kRowBlock], result[kRowBlock];
      T* to = y + row * columns + column;
      const float *left = a.row(row, column, n, wide_a), *right = b.row(row, column, n, wide_b);
      float* into = result_floats(to, result);
      for (std::int64_t j = 0; j < n; ++j) into[j] = op(left[j], right[j]);
      put_floats(to, into, n);
    });
  });
}

/// What reduce_to sums: the elements of x.
template <typename T>
struct Elements {
  const T* x;
  std::int64_t columns;
  const float* at(std::int64_t row, std::int64_t column, std::int64_t n, float* buffer) const {
    return as_floats(x + row * columns + column, buffer, n);
  }
};
/// What mul_reduce sums: products, never rounded to T.
struct Products {
  FloatOperand a, b;
  const float* at(std::int64_t row, std::int64_t column, std::int64_t n, float* buffer) const {
    float wide_a[kRowBlock], wide_b[kRowBlock];
    const float *left = a.row(row, column, n, wide_a), *right = b.row(row, column, n, wide_b);
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
      const float* values = source.at(row, i, n, buffer);
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

/// sums = the source, of the shape `large`, summed to the shape `small`.
template <typename Source>
void reduce(ThreadPool& pool, const Source& source, const Shape& large, const Shape& small,
            float* sums) {
  std::fill_n(sums, small.num_elements(), 0.0f);
  const Broadcast map(large, small);
  const std::int64_t columns = map.columns();
  const std::int64_t rows = columns == 0 ? 0 : large.num_elements() / columns;
  const std::int64_t chunk =
      map.repeats_columns() ? std::max<std::int64_t>(1, columns) : kReduceColumns;
  for_chunks(pool, columns, chunk, [&](std::int64_t begin, std::int64_t end) {
    reduce_rows(source, map, rows, begin, end, sums);
  });
}

void store_sums(const float* sums, const TensorType& type, void* out) {
  dispatch_float(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    store_floats(sums, static_cast<T*>(out), type.shape.num_elements());
  });
}

void launch_reduce_to(const KernelArgs& args) {
  const TensorType &in = args.in_type(0), &out = args.out_type(0);
  auto* sums = reinterpret_cast<float*>(args.workspace());
  dispatch_float(in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t columns = in.shape.rank() == 0 ? 1 : in.shape.back();
    reduce(args.pool(), Elements<T>{args.in<T>(0), columns}, in.shape, out.shape, sums);
  });
  store_sums(sums, out, args.out<void>(0));
}

void launch_mul_reduce(const KernelArgs& args) {
  const Shape& large = args.in_type(0).shape;
  const TensorType& out = args.out_type(0);
  auto* sums = reinterpret_cast<float*>(args.workspace());
  const Products products{float_operand(args, 0, large), float_operand(args, 1, large)};
  reduce(args.pool(), products, large, out.shape, sums);
  store_sums(sums, out, args.out<void>(0));
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

void sum_floats_to(ThreadPool& pool, const float* values, const Shape& large,
                   const TensorType& out_type, void* out, float* sums) {
  const std::int64_t columns = large.rank() == 0 ? 1 : large.back();
  reduce(pool, Elements<float>{values, columns}, large, out_type.shape, sums);
  store_sums(sums, out_type, out);
}

}  // namespace tr::cpu
