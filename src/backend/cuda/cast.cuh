// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "backend/cuda/map.cuh"

namespace tr::cuda {

template <typename From, typename To>
struct Cast {
  const From* x;
  To* y;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const Vector<From, N> values = load<N>(x + i);
    Vector<To, N> rounded;
#pragma unroll
    for (int j = 0; j < N; ++j) rounded.v[j] = from_float<To>(to_float(values.v[j]));
    store(y + i, rounded);
  }
};

/// Output 0 = input 0, rounded to nearest even.
inline void launch_cast(const KernelArgs& args) {
  const std::int64_t count = args.in_type(0).shape.num_elements();
  dispatch_float(args.in_type(0).dtype, [&](auto from_tag) {
    dispatch_float(args.out_type(0).dtype, [&](auto to_tag) {
      using From = typename decltype(from_tag)::type;
      using To = typename decltype(to_tag)::type;
      constexpr int kWide = kVectorBytes / int(std::max(sizeof(From), sizeof(To)));
      const From* x = args.in<From>(0);
      To* y = args.out<To>(0);
      launch_map<kWide>(args, count, aligned_to(kVectorBytes, x, y), Cast<From, To>{x, y});
    });
  });
}

}  // namespace tr::cuda
