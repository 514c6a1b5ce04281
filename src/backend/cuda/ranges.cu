// SPDX-License-Identifier: Apache-2.0
// Ops over whole ranges beside the optimizers: accumulation, finite check, averages, buffers.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda::ranges {
namespace {

using Float4 = Vector<float, 4>;
constexpr int kThreads = 256;
constexpr int kInFlight = 4;  // independent vectors a thread loads before it uses the first

struct Copy {
  static constexpr bool kReadsOld = false;
  __device__ float operator()(float, float from) const { return from; }
};
struct Add {
  static constexpr bool kReadsOld = true;
  __device__ float operator()(float old, float from) const { return old + from; }
};
struct Average {
  static constexpr bool kReadsOld = true;
  float decay, fresh;
  __device__ float operator()(float old, float from) const { return decay * old + fresh * from; }
};

/// to[i] = f(to[i], from[i]) unless `skip` points to a value other than 0. The vectors first, then
/// what is left of the range.
template <typename F>
__global__ __launch_bounds__(kThreads) void update_range(float* to, const float* from,
                                                         std::int64_t count,
                                                         std::int64_t num_vectors,
                                                         const std::int32_t* skip, F f) {
  if (skip != nullptr && *skip != 0) return;
  auto* wide_to = reinterpret_cast<Float4*>(to);
  const auto* wide_from = reinterpret_cast<const Float4*>(from);
  const std::int64_t first = std::int64_t(blockIdx.x) * kThreads * kInFlight + threadIdx.x;
  Float4 old[kInFlight], fresh[kInFlight];
#pragma unroll
  for (int v = 0; v < kInFlight; ++v) {
    const std::int64_t i = first + v * kThreads;
    if (i >= num_vectors) break;
    fresh[v] = wide_from[i];
    if constexpr (F::kReadsOld) old[v] = wide_to[i];
  }
#pragma unroll
  for (int v = 0; v < kInFlight; ++v) {
    const std::int64_t i = first + v * kThreads;
    if (i >= num_vectors) break;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      fresh[v].v[j] = f(F::kReadsOld ? old[v].v[j] : 0.0f, fresh[v].v[j]);
    }
    wide_to[i] = fresh[v];
  }
  for (std::int64_t i = num_vectors * 4 + std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
       i < count; i += std::int64_t(gridDim.x) * kThreads) {
    to[i] = f(F::kReadsOld ? to[i] : 0.0f, from[i]);
  }
}

template <typename F>
void launch_update(const KernelArgs& args, float* to, const float* from, const std::int32_t* skip,
                   F f) {
  const std::int64_t count = args.in_type(0).shape.num_elements();
  if (count == 0) return;
  const std::int64_t vectors = aligned_to(sizeof(Float4), to, from) ? count / 4 : 0;
  const LaunchShape shape =
      shape_for(ceil_div<std::int64_t>(count, 4 * kInFlight), kThreads, std::int64_t(1) << 30);
  launch(args, shape, update_range<F>, to, from, count, vectors, skip, f);
}

void launch_accumulate(const KernelArgs& args) {
  const bool first = args.attrs().flag("first"), last = args.attrs().flag("last");
  if (first && last) return;  // the only micro-batch: the gradients are the sum
  auto* g = args.state<float>(0);
  auto* sum = args.state<float>(1);
  if (first) return launch_update(args, sum, g, nullptr, Copy{});
  launch_update(args, last ? g : sum, last ? sum : g, nullptr, Add{});
}

void launch_ema(const KernelArgs& args) {
  const Average average{args.attrs().f32("decay"), float(1.0 - args.attrs().f64("decay"))};
  launch_update(args, args.state<float>(0), args.in<float>(1), args.in<std::int32_t>(2), average);
}

void launch_commit_buffers(const KernelArgs& args) {
  launch_update(args, args.state<float>(0), args.in<float>(1), args.in<std::int32_t>(2), Copy{});
}

const KernelRegistration kAccumulate{simple_kernel("accumulate_grads", launch_accumulate)};
const KernelRegistration kEma{simple_kernel("ema_update", launch_ema)};
const KernelRegistration kCommitBuffers{simple_kernel("commit_buffers", launch_commit_buffers)};

}  // namespace
}  // namespace tr::cuda::ranges
