// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels that compute element i of their outputs from element i of their inputs, in one launch:
// vectors of 16 bytes where the addresses allow them, then what is left over.

#include <cstdint>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda {

constexpr int kVectorBytes = 16;

/// Calls f.run<N>(i) for every i = 0, N, 2 N ... whose N elements exist, f.run<1>(i) for the rest.
template <int N, typename F>
__global__ void map_kernel(F f, std::int64_t count) {
  const std::int64_t first = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  const std::int64_t wide = count / N;
  for (std::int64_t i = first; i < wide; i += stride) f.template run<N>(i * N);
  if constexpr (N > 1) {
    for (std::int64_t i = wide * N + first; i < count; i += stride) f.template run<1>(i);
  }
}

/// One launch of map_kernel over `count` elements, `N` at a time if `aligned`.
template <int N, typename F>
void launch_map(const KernelArgs& args, std::int64_t count, bool aligned, const F& f) {
  if (aligned) {
    launch(args, shape_for(ceil_div<std::int64_t>(count, N)), map_kernel<N, F>, f, count);
  } else {
    launch(args, shape_for(count), map_kernel<1, F>, f, count);
  }
}

template <int N, typename T>
__device__ inline Vector<T, N> load(const T* from) {
  return *reinterpret_cast<const Vector<T, N>*>(from);
}
template <int N, typename T>
__device__ inline void store(T* to, const Vector<T, N>& values) {
  *reinterpret_cast<Vector<T, N>*>(to) = values;
}

/// Calls f(TypeTag<Offset>) with a type whose divisions are cheap if `count` elements allow it.
template <typename F>
void dispatch_offset(std::int64_t count, F&& f) {
  if (count <= INT32_MAX) return f(TypeTag<std::uint32_t>{});
  return f(TypeTag<std::int64_t>{});
}

}  // namespace tr::cuda
