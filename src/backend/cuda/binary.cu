// SPDX-License-Identifier: Apache-2.0
// Kernels of the tables in backend/binary_functors.h: elementwise ops of two inputs, their
// gradients, comparisons.
#include "backend/binary_functors.h"

#include <string>
#include <vector>

#include "backend/cuda/broadcast.cuh"
#include "backend/cuda/workspace_layout.h"

namespace tr::cuda {
namespace {

template <typename F, typename T>
struct MapSame {
  const T *a, *b;
  T* y;

  template <int N>
  __device__ void run(std::int64_t i) const {
    constexpr F f{};
    Vector<T, N> values = load<N>(a + i);
    const Vector<T, N> more = load<N>(b + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values.v[j] = from_float<T>(f(to_float(values.v[j]), to_float(more.v[j])));
    }
    store(y + i, values);
  }
};

template <typename F, typename Offset>
struct MapBroadcast {
  Operand<Offset> a, b;
  void* y;
  DType dtype;

  template <int N>
  __device__ void run(std::int64_t i) const {
    constexpr F f{};
    put(y, dtype, i, f(a(i), b(i)));
  }
};

template <typename F>
void launch_forward(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  const std::int64_t count = shape.num_elements();
  const DType dtype = args.out_type(0).dtype;
  const bool same = args.in_type(0).shape.num_elements() == count &&
                    args.in_type(1).shape.num_elements() == count &&
                    args.in_type(0).dtype == dtype && args.in_type(1).dtype == dtype;
  if (!same) {
    return dispatch_offset(count, [&](auto tag) {
      using Offset = typename decltype(tag)::type;
      const Operand<Offset> a(args, 0, shape), b(args, 1, shape);
      launch_map<1>(args, count, true, MapBroadcast<F, Offset>{a, b, args.out<void>(0), dtype});
    });
  }
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *a = args.in<T>(0), *b = args.in<T>(1);
    T* y = args.out<T>(0);
    launch_map<kVectorBytes / int(sizeof(T))>(args, count, aligned_to(kVectorBytes, a, b, y),
                                              MapSame<F, T>{a, b, y});
  });
}

template <typename F, bool kOfA, typename Offset>
struct MapGradient {
  Operand<Offset> dy, a, b;
  void* grad;
  DType dtype;

  template <int N>
  __device__ void run(std::int64_t i) const {
    constexpr F f{};
    const float d = dy(i), left = a(i), right = b(i);
    put(grad, dtype, i, kOfA ? f.grad_a(left, right, d) : f.grad_b(left, right, d));
  }
};

/// Each element's gradient; where the input was repeated, as fp32 in the workspace, then summed.
template <typename F, bool kOfA>
void launch_gradient(const KernelArgs& args) {
  const Shape& large = args.in_type(0).shape;
  const TensorType& out = args.out_type(0);
  const std::int64_t count = large.num_elements();
  const bool sums = out.shape.num_elements() != count;
  WorkspaceLayout layout;
  const std::int64_t values = layout.reserve(count * std::int64_t(sizeof(float)));
  std::byte* const grads = sums ? args.workspace() + values : args.out<std::byte>(0);
  dispatch_offset(count, [&](auto tag) {
    using Offset = typename decltype(tag)::type;
    const Operand<Offset> dy(args, 0, large), a(args, 1, large), b(args, 2, large);
    launch_map<1>(args, count, true,
                  MapGradient<F, kOfA, Offset>{dy, a, b, grads, sums ? DType::FP32 : out.dtype});
  });
  if (!sums) return;
  sum_floats_to(args, reinterpret_cast<const float*>(grads), large, out, args.out<void>(0),
                args.workspace() + layout.bytes());
}

std::int64_t gradient_workspace(const KernelQuery& query) {
  const Shape &large = query.in[0].shape, &out = query.out[0].shape;
  if (large.num_elements() == out.num_elements()) return 0;
  WorkspaceLayout layout;
  layout.reserve(large.num_elements() * std::int64_t(sizeof(float)));
  layout.reserve(sum_floats_workspace(large, out));
  return layout.bytes();
}

template <typename F, typename Wide, typename Offset>
struct MapComparison {
  const Wide *a, *b;
  Place<Offset> of_a, of_b;
  bool* y;

  template <int N>
  __device__ void run(std::int64_t i) const {
    constexpr F f{};
    y[i] = f(a[of_a(i)], b[of_b(i)]);
  }
};

template <typename F, typename Offset>
struct MapFloatComparison {
  Operand<Offset> a, b;
  bool* y;

  template <int N>
  __device__ void run(std::int64_t i) const {
    constexpr F f{};
    y[i] = f(a(i), b(i));
  }
};

template <typename F, typename Wide>
void compare(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  const std::int64_t count = shape.num_elements();
  dispatch_offset(count, [&](auto tag) {
    using Offset = typename decltype(tag)::type;
    const Place<Offset> of_a(shape, args.in_type(0).shape), of_b(shape, args.in_type(1).shape);
    launch_map<1>(args, count, true,
                  MapComparison<F, Wide, Offset>{args.in<Wide>(0), args.in<Wide>(1), of_a, of_b,
                                                 args.out<bool>(0)});
  });
}

template <typename F>
void launch_comparison(const KernelArgs& args) {
  switch (args.in_type(0).dtype) {
    case DType::INT32: return compare<F, std::int32_t>(args);
    case DType::INT64: return compare<F, std::int64_t>(args);
    case DType::BOOL: return compare<F, bool>(args);
    default: break;
  }
  const Shape& shape = args.out_type(0).shape;
  const std::int64_t count = shape.num_elements();
  dispatch_offset(count, [&](auto tag) {
    using Offset = typename decltype(tag)::type;
    const Operand<Offset> a(args, 0, shape), b(args, 1, shape);
    launch_map<1>(args, count, true, MapFloatComparison<F, Offset>{a, b, args.out<bool>(0)});
  });
}

KernelDef gradient_kernel(const std::string& op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch, refuse_unless_floating);
  def.workspace_bytes = gradient_workspace;
  return def;
}

struct RegisterBinary {
  std::vector<KernelRegistration>& all;

  template <typename F>
  void operator()() const {
    const std::string name(F::kName);
    all.emplace_back(simple_kernel(name, launch_forward<F>, refuse_unless_floating));
    all.emplace_back(gradient_kernel(name + "_da", launch_gradient<F, true>));
    all.emplace_back(gradient_kernel(name + "_db", launch_gradient<F, false>));
  }
};

struct RegisterComparison {
  std::vector<KernelRegistration>& all;

  template <typename F>
  void operator()() const {
    all.emplace_back(simple_kernel(std::string(F::kName), launch_comparison<F>));
  }
};

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  functors::for_each_binary(RegisterBinary{all});
  functors::for_each_compare(RegisterComparison{all});
  return all;
}();

}  // namespace
}  // namespace tr::cuda
