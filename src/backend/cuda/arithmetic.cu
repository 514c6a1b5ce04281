// SPDX-License-Identifier: Apache-2.0
// add and mul with broadcasting, and cast; reduce_to and mul_reduce are in reduce_to.cu.
#include "backend/cuda/broadcast.cuh"
#include "backend/cuda/cast.cuh"
#include "backend/cuda/widen.h"

namespace tr::cuda {
namespace {

struct Add {
  __device__ static float of(float a, float b) { return a + b; }
};
struct Mul {
  __device__ static float of(float a, float b) { return a * b; }
};

template <typename Op, typename T>
struct MapSame {
  const T *a, *b;
  T* y;  // may be a or b

  template <int N>
  __device__ void run(std::int64_t i) const {
    Vector<T, N> values = load<N>(a + i);
    const Vector<T, N> more = load<N>(b + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values.v[j] = from_float<T>(Op::of(to_float(values.v[j]), to_float(more.v[j])));
    }
    store(y + i, values);
  }
};

template <typename Op, typename T, typename Offset>
struct MapBroadcast {
  const T *a, *b;
  T* y;
  Axes<Offset> axes;

  template <int N>
  __device__ void run(std::int64_t i) const {
    Vector<T, N> values = load<N>(a + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float more = to_float(b[axes.offset(Offset(i) + Offset(j))]);
      values.v[j] = from_float<T>(Op::of(to_float(values.v[j]), more));
    }
    store(y + i, values);
  }
};

/// Both are repeated.
template <typename Op, typename Offset>
struct MapBoth {
  Operand<Offset> a, b;
  void* y;
  DType dtype;

  template <int N>
  __device__ void run(std::int64_t i) const {
    put(y, dtype, i, Op::of(a(i), b(i)));
  }
};

/// Op is commutative: the larger input comes first.
template <typename Op>
void launch_binary(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  const std::int64_t count = shape.num_elements();
  const auto is_whole = [&](int i) { return args.in_type(i).shape.num_elements() == count; };
  if (!is_whole(0) && !is_whole(1)) {
    return dispatch_offset(count, [&](auto tag) {
      using Offset = typename decltype(tag)::type;
      const Operand<Offset> a(args, 0, shape), b(args, 1, shape);
      launch_map<1>(args, count, true,
                    MapBoth<Op, Offset>{a, b, args.out<void>(0), args.out_type(0).dtype});
    });
  }
  const int large = is_whole(0) ? 0 : 1, small = 1 - large;
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = kVectorBytes / int(sizeof(T));
    const T *a = args.in<T>(large), *b = args.in<T>(small);
    T* y = args.out<T>(0);
    if (is_whole(small)) {
      launch_map<kWide>(args, count, aligned_to(kVectorBytes, a, b, y), MapSame<Op, T>{a, b, y});
      return;
    }
    dispatch_offset(count, [&](auto offset_tag) {
      using Offset = typename decltype(offset_tag)::type;
      const Broadcast<Offset> map(shape, args.in_type(small).shape);
      launch_map<kWide>(args, count, aligned_to(kVectorBytes, a, y),
                        MapBroadcast<Op, T, Offset>{a, b, y, map.large});
    });
  });
}

const KernelRegistration kAdd{simple_kernel("add", launch_binary<Add>, refuse_unless_floating)};
const KernelRegistration kMul{simple_kernel("mul", launch_binary<Mul>, refuse_unless_floating)};
const KernelRegistration kCast{simple_kernel("cast", launch_cast, refuse_unless_floating)};

}  // namespace

void widen(const KernelArgs& args, DType dtype, const void* from, float* to, std::int64_t count) {
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = static_cast<const T*>(from);
    launch_map<4>(args, count, aligned_to(kVectorBytes, x, to), Cast<T, float>{x, to});
  });
}

}  // namespace tr::cuda
