// SPDX-License-Identifier: Apache-2.0
// scale and full_like.
#include "backend/cuda/map.cuh"

namespace tr::cuda {
namespace {

template <typename T>
struct Scale {
  const T* x;
  T* y;  // may be x
  float factor;

  template <int N>
  __device__ void run(std::int64_t i) const {
    Vector<T, N> values = load<N>(x + i);
#pragma unroll
    for (int j = 0; j < N; ++j) values.v[j] = from_float<T>(factor * to_float(values.v[j]));
    store(y + i, values);
  }
};

void launch_scale(const KernelArgs& args) {
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = kVectorBytes / int(sizeof(T));
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    launch_map<kWide>(args, args.in_type(0).shape.num_elements(), aligned_to(kVectorBytes, x, y),
                      Scale<T>{x, y, args.attrs().f32("factor")});
  });
}

struct Full {
  float* y;
  float value;

  template <int N>
  __device__ void run(std::int64_t i) const {
    Vector<float, N> values;
#pragma unroll
    for (int j = 0; j < N; ++j) values.v[j] = value;
    store(y + i, values);
  }
};

void launch_full_like(const KernelArgs& args) {
  constexpr int kWide = kVectorBytes / int(sizeof(float));
  float* y = args.out<float>(0);
  launch_map<kWide>(args, args.out_type(0).shape.num_elements(), aligned_to(kVectorBytes, y),
                    Full{y, args.attrs().f32("value")});
}

const KernelRegistration kScale{simple_kernel("scale", launch_scale, refuse_unless_floating)};
const KernelRegistration kFullLike{simple_kernel("full_like", launch_full_like)};

}  // namespace
}  // namespace tr::cuda
