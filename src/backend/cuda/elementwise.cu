// SPDX-License-Identifier: Apache-2.0
// Kernels of every entry of the functor table, forward and backward, for all floating dtypes.
#include <string>
#include <vector>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"
#include "backend/elementwise_functors.h"

namespace tr::cuda {
namespace {

constexpr int kVectorBytes = 16;

template <typename T, int N, typename Functor>
__global__ void forward_kernel(const Vector<T, N>* x, Vector<T, N>* y, std::int64_t count,
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
__global__ void backward_kernel(const Vector<T, N>* dy, const Vector<T, N>* saved, Vector<T, N>* dx,
                                std::int64_t count, Functor f) {
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

template <typename Functor>
Functor functor_of(const Attrs& attrs) {
  return functors::make<Functor>(Functor::kHasAlpha ? attrs.f32("alpha") : 0.0f);
}

template <typename Functor>
void launch_forward(const KernelArgs& args) {
  const Functor f = functor_of<Functor>(args.attrs());
  const std::int64_t count = args.in_type(0).shape.num_elements();
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = kVectorBytes / int(sizeof(T));
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    const std::int64_t wide = aligned_to(kVectorBytes, x, y) ? count / kWide : 0;
    const std::int64_t done = wide * kWide;
    if (wide > 0) {
      launch(args, shape_for(wide), forward_kernel<T, kWide, Functor>,
             reinterpret_cast<const Vector<T, kWide>*>(x), reinterpret_cast<Vector<T, kWide>*>(y),
             wide, f);
    }
    if (done < count) {
      launch(args, shape_for(count - done), forward_kernel<T, 1, Functor>,
             reinterpret_cast<const Vector<T, 1>*>(x + done),
             reinterpret_cast<Vector<T, 1>*>(y + done), count - done, f);
    }
  });
}

template <typename Functor>
void launch_backward(const KernelArgs& args) {
  const Functor f = functor_of<Functor>(args.attrs());
  const std::int64_t count = args.in_type(0).shape.num_elements();
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = kVectorBytes / int(sizeof(T));
    const T *dy = args.in<T>(0), *saved = args.in<T>(1);
    T* dx = args.out<T>(0);
    const std::int64_t wide = aligned_to(kVectorBytes, dy, saved, dx) ? count / kWide : 0;
    const std::int64_t done = wide * kWide;
    if (wide > 0) {
      launch(args, shape_for(wide), backward_kernel<T, kWide, Functor>,
             reinterpret_cast<const Vector<T, kWide>*>(dy),
             reinterpret_cast<const Vector<T, kWide>*>(saved),
             reinterpret_cast<Vector<T, kWide>*>(dx), wide, f);
    }
    if (done < count) {
      launch(args, shape_for(count - done), backward_kernel<T, 1, Functor>,
             reinterpret_cast<const Vector<T, 1>*>(dy + done),
             reinterpret_cast<const Vector<T, 1>*>(saved + done),
             reinterpret_cast<Vector<T, 1>*>(dx + done), count - done, f);
    }
  });
}

/// All inputs and outputs share one floating dtype.
std::string refuse_mixed(const KernelQuery& query) {
  for (const TensorType& type : query.in) {
    if (type.dtype != query.in.front().dtype) {
      return "the inputs are " + std::string(name_of(query.in.front().dtype)) + " and " +
             std::string(name_of(type.dtype)) + ", expected one dtype";
    }
  }
  return refuse_unless_floating(query);
}

struct RegisterAll {
  std::vector<KernelRegistration>& all;

  template <typename Functor>
  void operator()() const {
    const std::string name(Functor::kName);
    all.emplace_back(simple_kernel(name, launch_forward<Functor>, refuse_mixed));
    all.emplace_back(simple_kernel(name + "_backward", launch_backward<Functor>, refuse_mixed));
  }
};

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  functors::for_each(RegisterAll{all});
  return all;
}();

}  // namespace
}  // namespace tr::cuda
