// SPDX-License-Identifier: Apache-2.0
// add with broadcasting and cast; reduce_to is in reduce_to.cu.
#include "backend/cuda/cast.cuh"
#include "backend/cuda/axes.h"

namespace tr::cuda {
namespace {

template <typename T>
struct AddSame {
  const T *a, *b;
  T* y;  // may be a or b

  template <int N>
  __device__ void run(std::int64_t i) const {
    Vector<T, N> values = load<N>(a + i);
    const Vector<T, N> more = load<N>(b + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values.v[j] = from_float<T>(to_float(values.v[j]) + to_float(more.v[j]));
    }
    store(y + i, values);
  }
};

template <typename T, typename Offset>
struct AddBroadcast {
  const T *a, *b;
  T* y;
  Axes<Offset> axes;

  template <int N>
  __device__ void run(std::int64_t i) const {
    Vector<T, N> values = load<N>(a + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float more = to_float(b[axes.offset(Offset(i) + Offset(j))]);
      values.v[j] = from_float<T>(to_float(values.v[j]) + more);
    }
    store(y + i, values);
  }
};

void launch_add(const KernelArgs& args) {
  const Shape &shape = args.in_type(0).shape, &other = args.in_type(1).shape;
  const std::int64_t count = shape.num_elements();
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = kVectorBytes / int(sizeof(T));
    const T *a = args.in<T>(0), *b = args.in<T>(1);
    T* y = args.out<T>(0);
    if (count == other.num_elements()) {
      launch_map<kWide>(args, count, aligned_to(kVectorBytes, a, b, y), AddSame<T>{a, b, y});
      return;
    }
    dispatch_offset(count, [&](auto offset_tag) {
      using Offset = typename decltype(offset_tag)::type;
      const Broadcast<Offset> map(shape, other);
      launch_map<kWide>(args, count, aligned_to(kVectorBytes, a, y),
                        AddBroadcast<T, Offset>{a, b, y, map.large});
    });
  });
}

const KernelRegistration kAdd{simple_kernel("add", launch_add, refuse_unless_floating)};
const KernelRegistration kCast{simple_kernel("cast", launch_cast, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cuda
