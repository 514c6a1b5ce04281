// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax_axis, and their gradients. Lines along the last axis are shared by a warp
// or a block; lines that lie side by side have a thread each, whose neighbours read neighbours.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda {
namespace {

constexpr int kBlock = 256;
constexpr std::int64_t kWarpLength = 1024;  // up to it a warp has a line of its own

/// x as [outer, length, inner], `length` along the axis.
struct Lines {
  std::int64_t outer = 1, length = 1, inner = 1;

  Lines(const Attrs& attrs, const Shape& x) {
    const std::int64_t given = attrs.i64("axis");
    const int axis = int(given < 0 ? given + x.rank() : given);
    for (int i = 0; i < x.rank(); ++i) (i < axis ? outer : i > axis ? inner : length) *= x[i];
  }
  __host__ __device__ std::int64_t count() const { return outer * inner; }
  __device__ std::int64_t first(std::int64_t line) const {
    return line / inner * length * inner + line % inner;
  }
};

struct Sum {
  __device__ static float join(float a, float b) { return a + b; }
};
struct Max {
  __device__ static float join(float a, float b) { return a > b || a != a ? a : b; }
};

/// What kThreads threads that share a line have found, joined in a fixed order, the same for each.
template <int kThreads, typename Join>
__device__ float shared(float value) {
  if constexpr (kThreads > 1) {
#pragma unroll
    for (int width = 16; width > 0; width /= 2) {
      value = Join::join(value, __shfl_xor_sync(0xffffffffu, value, width));
    }
  }
  if constexpr (kThreads > 32) {
    __shared__ float warps[kThreads / 32];
    __syncthreads();  // the former value was read
    if (threadIdx.x == 0) warps[threadIdx.y] = value;
    __syncthreads();
    value = warps[0];
#pragma unroll
    for (int i = 1; i < kThreads / 32; ++i) value = Join::join(value, warps[i]);
  }
  return value;
}

/// Blocks are (32, 8): 1, 32 or 256 threads a line.
template <int kThreads>
struct Share {
  static constexpr int kOfBlock = kBlock / kThreads;
  __device__ static std::int64_t first() {
    const int thread = int(threadIdx.y * 32 + threadIdx.x);
    return std::int64_t(blockIdx.x) * kOfBlock + thread / kThreads;
  }
  __device__ static std::int64_t stride() { return std::int64_t(gridDim.x) * kOfBlock; }
  __device__ static int thread() { return int(threadIdx.y * 32 + threadIdx.x) % kThreads; }
};

template <typename T, int kThreads, bool kLog>
__global__ void __launch_bounds__(kBlock) forward_kernel(const T* x, T* y, Lines lines) {
  using Own = Share<kThreads>;
  for (std::int64_t line = Own::first(); line < lines.count(); line += Own::stride()) {
    const std::int64_t at = lines.first(line);
    float largest = -INFINITY;
    for (std::int64_t i = Own::thread(); i < lines.length; i += kThreads) {
      largest = Max::join(largest, to_float(x[at + i * lines.inner]));
    }
    largest = shared<kThreads, Max>(largest);
    float sum = 0;
    for (std::int64_t i = Own::thread(); i < lines.length; i += kThreads) {
      sum += expf(to_float(x[at + i * lines.inner]) - largest);
    }
    sum = shared<kThreads, Sum>(sum);
    const float last = kLog ? logf(sum) : 1 / sum;
    for (std::int64_t i = Own::thread(); i < lines.length; i += kThreads) {
      const std::int64_t place = at + i * lines.inner;
      const float d = to_float(x[place]) - largest;
      y[place] = from_float<T>(kLog ? d - last : expf(d) * last);
    }
  }
}

template <typename T, int kThreads, bool kLog>
__global__ void __launch_bounds__(kBlock)
    backward_kernel(const T* dy, const T* y, T* dx, Lines lines) {
  using Own = Share<kThreads>;
  for (std::int64_t line = Own::first(); line < lines.count(); line += Own::stride()) {
    const std::int64_t at = lines.first(line);
    float sum = 0;
    for (std::int64_t i = Own::thread(); i < lines.length; i += kThreads) {
      const std::int64_t place = at + i * lines.inner;
      sum += kLog ? to_float(dy[place]) : to_float(dy[place]) * to_float(y[place]);
    }
    sum = shared<kThreads, Sum>(sum);
    for (std::int64_t i = Own::thread(); i < lines.length; i += kThreads) {
      const std::int64_t place = at + i * lines.inner;
      const float d = to_float(dy[place]), v = to_float(y[place]);
      dx[place] = from_float<T>(kLog ? d - expf(v) * sum : v * (d - sum));
    }
  }
}

/// Calls f(std::integral_constant<threads of a line>, the launch's shape).
template <typename F>
void dispatch_threads(const Lines& lines, F&& f) {
  const auto shape = [&](int of_block) {
    LaunchShape shape = shape_for(lines.count(), of_block);
    shape.block = dim3(32, kBlock / 32);
    return shape;
  };
  if (lines.inner > 1) return f(std::integral_constant<int, 1>{}, shape(kBlock));
  if (lines.length <= kWarpLength) return f(std::integral_constant<int, 32>{}, shape(kBlock / 32));
  return f(std::integral_constant<int, kBlock>{}, shape(1));
}

template <bool kLog>
void launch_forward(const KernelArgs& args) {
  const Lines lines(args.attrs(), args.in_type(0).shape);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_threads(lines, [&](auto threads, const LaunchShape& shape) {
      launch(args, shape, forward_kernel<T, decltype(threads)::value, kLog>, args.in<T>(0),
             args.out<T>(0), lines);
    });
  });
}

template <bool kLog>
void launch_backward(const KernelArgs& args) {
  const Lines lines(args.attrs(), args.in_type(0).shape);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_threads(lines, [&](auto threads, const LaunchShape& shape) {
      launch(args, shape, backward_kernel<T, decltype(threads)::value, kLog>, args.in<T>(0),
             args.in<T>(1), args.out<T>(0), lines);
    });
  });
}

const KernelRegistration kSoftmax{
    simple_kernel("softmax", launch_forward<false>, refuse_unless_floating)};
const KernelRegistration kSoftmaxBackward{
    simple_kernel("softmax_backward", launch_backward<false>, refuse_unless_floating)};
const KernelRegistration kLogSoftmax{
    simple_kernel("log_softmax_axis", launch_forward<true>, refuse_unless_floating)};
const KernelRegistration kLogSoftmaxBackward{
    simple_kernel("log_softmax_axis_backward", launch_backward<true>, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cuda
