// SPDX-License-Identifier: Apache-2.0
// Kernels of the tables in backend/binary_functors.h: elementwise ops of two inputs, their
// gradients, comparisons.
#include "backend/binary_functors.h"

#include <string>
#include <vector>

#include "backend/cpu/broadcast.h"

namespace tr::cpu {
namespace {

template <typename F>
void launch_forward(const KernelArgs& args) {
  const Shape over = rows_of_output(args, {0, 1});
  const FloatOperand a = float_operand(args, 0, over), b = float_operand(args, 1, over);
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = args.out<T>(0);
    const std::int64_t columns = a.map.columns();
    for_row_runs(args.pool(), over, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
      constexpr F f;
      float wide_a[kRowBlock], wide_b[kRowBlock], result[kRowBlock];
      T* to = y + row * columns + column;
      const float *left = a.row(row, column, n, wide_a), *right = b.row(row, column, n, wide_b);
      float* into = result_floats(to, result);
      for (std::int64_t j = 0; j < n; ++j) into[j] = f(left[j], right[j]);
      put_floats(to, into, n);
    });
  });
}

/// Each element's gradient as fp32 in the workspace, then their sums behind them: what is summed is
/// never rounded.
template <typename F, bool kOfA>
void launch_gradient(const KernelArgs& args) {
  const Shape& large = args.in_type(0).shape;
  const std::int64_t count = large.num_elements();
  const FloatOperand a = float_operand(args, 1, large), b = float_operand(args, 2, large);
  const FloatOperand dy = float_operand(args, 0, large);
  auto* grads = reinterpret_cast<float*>(args.workspace());
  const std::int64_t columns = a.map.columns();
  for_row_runs(args.pool(), large, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    constexpr F f;
    float wide_a[kRowBlock], wide_b[kRowBlock], wide_dy[kRowBlock];
    const float *left = a.row(row, column, n, wide_a), *right = b.row(row, column, n, wide_b);
    const float* d = dy.row(row, column, n, wide_dy);
    float* to = grads + row * columns + column;
    for (std::int64_t j = 0; j < n; ++j) {
      to[j] = kOfA ? f.grad_a(left[j], right[j], d[j]) : f.grad_b(left[j], right[j], d[j]);
    }
  });
  sum_floats_to(args.pool(), grads, large, args.out_type(0), args.out<void>(0), grads + count);
}

template <typename F, typename Wide>
void compare_rows(const KernelArgs& args) {
  const Shape over = rows_of_output(args, {0, 1});
  bool* y = args.out<bool>(0);
  const auto map_of = [&](int i) {
    const Shape& shape = args.in_type(i).shape;
    return Broadcast(over, shape.num_elements() == over.num_elements() ? over : shape);
  };
  const Broadcast of_a = map_of(0), of_b = map_of(1);
  const Wide *a = args.in<Wide>(0), *b = args.in<Wide>(1);
  for_row_runs(args.pool(), over, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    constexpr F f;
    const std::int64_t at_a = of_a.offset_of_row(row), at_b = of_b.offset_of_row(row);
    bool* to = y + row * of_a.columns() + column;
    for (std::int64_t j = 0; j < n; ++j) {
      to[j] = f(a[of_a.repeats_columns() ? at_a : at_a + column + j],
                b[of_b.repeats_columns() ? at_b : at_b + column + j]);
    }
  });
}

template <typename F>
void compare_floats(const KernelArgs& args) {
  const Shape over = rows_of_output(args, {0, 1});
  const FloatOperand a = float_operand(args, 0, over), b = float_operand(args, 1, over);
  bool* y = args.out<bool>(0);
  for_row_runs(args.pool(), over, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    constexpr F f;
    float wide_a[kRowBlock], wide_b[kRowBlock];
    const float *left = a.row(row, column, n, wide_a), *right = b.row(row, column, n, wide_b);
    bool* to = y + row * a.map.columns() + column;
    for (std::int64_t j = 0; j < n; ++j) to[j] = f(left[j], right[j]);
  });
}

template <typename F>
void launch_comparison(const KernelArgs& args) {
  switch (args.in_type(0).dtype) {
    case DType::INT32: return compare_rows<F, std::int32_t>(args);
    case DType::INT64: return compare_rows<F, std::int64_t>(args);
    case DType::BOOL: return compare_rows<F, bool>(args);
    default: return compare_floats<F>(args);
  }
}

KernelDef gradient_kernel(const std::string& op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch, refuse_unless_floating);
  def.workspace_bytes = [](const KernelQuery& query) {
    return (query.in[0].shape.num_elements() + query.out[0].shape.num_elements()) *
           std::int64_t(sizeof(float));
  };
  return def;
}

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  functors::for_each_binary([&]<typename F>() {
    const std::string name(F::kName);
    all.emplace_back(simple_kernel(name, launch_forward<F>, refuse_unless_floating));
    all.emplace_back(gradient_kernel(name + "_da", launch_gradient<F, true>));
    all.emplace_back(gradient_kernel(name + "_db", launch_gradient<F, false>));
  });
  functors::for_each_compare([&]<typename F>() {
    all.emplace_back(simple_kernel(std::string(F::kName), launch_comparison<F>));
  });
  return all;
}();

}  // namespace
}  // namespace tr::cpu
