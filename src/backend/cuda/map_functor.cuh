// SPDX-License-Identifier: Apache-2.0
#pragma once

// Launches of elementwise functors of one input (backend/elementwise_functors.h, math_functors.h).

#include <string>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda {

constexpr int kMapBytes = 16;  // of a load or store

template <typename T, int N, typename Functor>
__global__ void map_forward_kernel(const Vector<T, N>* x, Vector<T, N>* y, std::int64_t count,
                                   Functor f) {
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    Vector<T, N> values = x[i];
#pragma unroll
    for (int j = 0; j < N; ++j) values.v[j] = from_float<T>(f(to_float(values.v[j])));
    y[i] = values;
  }
}

template <typename T, int N, typename Functor>
__global__ void map_backward_kernel(const Vector<T, N>* dy, const Vector<T, N>* saved,
                                    Vector<T, N>* dx, std::int64_t count, Functor f) {
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    Vector<T, N> values = dy[i];
    const Vector<T, N> at = saved[i];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values.v[j] = from_float<T>(f.grad(to_float(at.v[j]), to_float(values.v[j])));
    }
    dx[i] = values;
  }
}

/// y[i] = f(x[i])
template <typename Functor>
void map_forward(const KernelArgs& args, const Functor& f) {
  const std::int64_t count = args.in_type(0).shape.num_elements();
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = kMapBytes / int(sizeof(T));
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    const std::int64_t wide = aligned_to(kMapBytes, x, y) ? count / kWide : 0;
    const std::int64_t done = wide * kWide;
    if (wide > 0) {
      launch(args, shape_for(wide), map_forward_kernel<T, kWide, Functor>,
             reinterpret_cast<const Vector<T, kWide>*>(x), reinterpret_cast<Vector<T, kWide>*>(y),
             wide, f);
    }
    if (done < count) {
      launch(args, shape_for(count - done), map_forward_kernel<T, 1, Functor>,
             reinterpret_cast<const Vector<T, 1>*>(x + done),
             reinterpret_cast<Vector<T, 1>*>(y + done), count - done, f);
    }
  });
}

/// dx[i] = f.grad(saved[i], dy[i]) from dy, saved
template <typename Functor>
void map_backward(const KernelArgs& args, const Functor& f) {
  const std::int64_t count = args.in_type(0).shape.num_elements();
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = kMapBytes / int(sizeof(T));
    const T *dy = args.in<T>(0), *saved = args.in<T>(1);
    T* dx = args.out<T>(0);
    const std::int64_t wide = aligned_to(kMapBytes, dy, saved, dx) ? count / kWide : 0;
    const std::int64_t done = wide * kWide;
    if (wide > 0) {
      launch(args, shape_for(wide), map_backward_kernel<T, kWide, Functor>,
             reinterpret_cast<const Vector<T, kWide>*>(dy),
             reinterpret_cast<const Vector<T, kWide>*>(saved),
             reinterpret_cast<Vector<T, kWide>*>(dx), wide, f);
    }
    if (done < count) {
      launch(args, shape_for(count - done), map_backward_kernel<T, 1, Functor>,
             reinterpret_cast<const Vector<T, 1>*>(dy + done),
             reinterpret_cast<const Vector<T, 1>*>(saved + done),
             reinterpret_cast<Vector<T, 1>*>(dx + done), count - done, f);
    }
  });
}

/// All inputs and outputs share one floating dtype.
inline std::string refuse_mixed(const KernelQuery& query) {
  for (const TensorType& type : query.in) {
    if (type.dtype != query.in.front().dtype) {
      return "the inputs are " + std::string(name_of(query.in.front().dtype)) + " and " +
             std::string(name_of(type.dtype)) + ", expected one dtype";
    }
  }
  return refuse_unless_floating(query);
}

}  // namespace tr::cuda
