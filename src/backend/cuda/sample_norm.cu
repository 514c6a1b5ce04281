// SPDX-License-Identifier: Apache-2.0
// layer_norm, rms_norm, group_norm and their gradients.
#include "ops/sample_norm.h"

#include "backend/cuda/reduction.cuh"

namespace tr::cuda {
namespace {

constexpr int kBlock = 256;
constexpr std::int64_t kWarpLength = 1024;  // up to it a warp has a statistic of its own

/// Element of value `j` of those that have one statistic, and its channel in the weight.
struct Values {
  std::int64_t spatial, groups, channels;

  explicit Values(const SampleNorm& norm)
      : spatial(norm.spatial), groups(norm.groups), channels(norm.channels) {}
  __device__ std::int64_t length() const { return spatial * channels; }
  __device__ std::int64_t channel(std::int64_t statistic, std::int64_t j) const {
    const std::int64_t group = groups == 1 ? 0 : statistic % groups;
    return group * channels + (spatial == 1 ? j : j % channels);
  }
  __device__ std::int64_t element(std::int64_t statistic, std::int64_t j) const {
    const std::int64_t sample = groups == 1 ? statistic : statistic / groups;
    const std::int64_t row = spatial == 1 ? sample : sample * spatial + j / channels;
    return row * groups * channels + channel(statistic, j);
  }
};

/// Sum over the kThreads threads that share a statistic, the same for each; in a fixed order.
template <int kThreads>
__device__ float shared_sum(float value) {
#pragma unroll
  for (int width = 16; width > 0; width /= 2) value += __shfl_xor_sync(0xffffffffu, value, width);
  if constexpr (kThreads > 32) {
    __shared__ float warps[kThreads / 32];
    __syncthreads();  // the former sum was read
    if (threadIdx.x == 0) warps[threadIdx.y] = value;
    __syncthreads();
    value = 0;
#pragma unroll
    for (int i = 0; i < kThreads / 32; ++i) value += warps[i];
  }
  return value;
}

/// Blocks are (32, 8): a warp a statistic, or all of them one.
template <int kThreads>
struct Share {
  static constexpr int kOfBlock = kBlock / kThreads;
  __device__ static std::int64_t first() {
    return std::int64_t(blockIdx.x) * kOfBlock + (kThreads == 32 ? threadIdx.y : 0);
  }
  __device__ static std::int64_t stride() { return std::int64_t(gridDim.x) * kOfBlock; }
  __device__ static int thread() {
    return kThreads == 32 ? int(threadIdx.x) : int(threadIdx.y * 32 + threadIdx.x);
  }
};

struct Forward {
  const float *weight, *bias;
  float *mean, *rstd;  // mean may be missing: it is 0 then
  float eps;
  std::int64_t count;  // of statistics
};

template <typename T, int kThreads>
__global__ void __launch_bounds__(kBlock)
    forward_kernel(const T* x, T* y, Values values, Forward p) {
  using Own = Share<kThreads>;
  const std::int64_t length = values.length();
  for (std::int64_t i = Own::first(); i < p.count; i += Own::stride()) {
    float mean = 0;
    if (p.mean != nullptr) {
      for (std::int64_t j = Own::thread(); j < length; j += kThreads) {
        mean += to_float(x[values.element(i, j)]);
      }
      mean = shared_sum<kThreads>(mean) / float(length);
    }
    float squares = 0;
    for (std::int64_t j = Own::thread(); j < length; j += kThreads) {
      const float d = to_float(x[values.element(i, j)]) - mean;
      squares += d * d;
    }
    const float rstd = 1 / sqrtf(shared_sum<kThreads>(squares) / float(length) + p.eps);
    for (std::int64_t j = Own::thread(); j < length; j += kThreads) {
      const std::int64_t at = values.element(i, j), c = values.channel(i, j);
      const float scaled = (to_float(x[at]) - mean) * rstd * p.weight[c];
      y[at] = from_float<T>(p.bias == nullptr ? scaled : scaled + p.bias[c]);
    }
    if (Own::thread() == 0) {
      if (p.mean != nullptr) p.mean[i] = mean;
      p.rstd[i] = rstd;
    }
  }
}

struct Backward {
  const float *weight, *mean, *rstd;
  std::int64_t count;
};

template <typename T, int kThreads>
__global__ void __launch_bounds__(kBlock)
    backward_kernel(const T* dy, const T* x, T* dx, Values values, Backward p) {
  using Own = Share<kThreads>;
  const std::int64_t length = values.length();
  for (std::int64_t i = Own::first(); i < p.count; i += Own::stride()) {
    const float mean = p.mean == nullptr ? 0.0f : p.mean[i], rstd = p.rstd[i];
    float sum_g = 0, sum_gx = 0;
    for (std::int64_t j = Own::thread(); j < length; j += kThreads) {
      const std::int64_t at = values.element(i, j);
      const float g = to_float(dy[at]) * p.weight[values.channel(i, j)];
      sum_g += g;
      sum_gx += g * ((to_float(x[at]) - mean) * rstd);
    }
    const float mean_gx = shared_sum<kThreads>(sum_gx) / float(length);
    const float mean_g = p.mean == nullptr ? 0.0f : shared_sum<kThreads>(sum_g) / float(length);
    for (std::int64_t j = Own::thread(); j < length; j += kThreads) {
      const std::int64_t at = values.element(i, j);
      const float g = to_float(dy[at]) * p.weight[values.channel(i, j)];
      dx[at] = from_float<T>(rstd * (g - mean_g - (to_float(x[at]) - mean) * rstd * mean_gx));
    }
  }
}

/// Calls f(std::integral_constant<threads of a statistic>, the launch's shape).
template <typename F>
void dispatch_threads(const SampleNorm& norm, F&& f) {
  const bool warps = norm.length() <= kWarpLength;
  LaunchShape shape = shape_for(norm.num_statistics(), warps ? kBlock / 32 : 1);
  shape.block = dim3(32, kBlock / 32);
  if (warps) return f(std::integral_constant<int, 32>{}, shape);
  return f(std::integral_constant<int, kBlock>{}, shape);
}

/// Inputs x, weight, bias; outputs y, mean (if kHasMean), rstd.
template <bool kHasMean>
void launch_forward(const KernelArgs& args) {
  const SampleNorm norm = sample_norm(args.attrs(), args.in_type(0).shape);
  if (args.in_type(0).shape.num_elements() == 0) return;
  const Forward p{args.in<float>(1),
                  args.has_in(2) ? args.in<float>(2) : nullptr,
                  kHasMean ? args.out<float>(1) : nullptr,
                  args.out<float>(kHasMean ? 2 : 1),
                  args.attrs().f32("eps"),
                  norm.num_statistics()};
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_threads(norm, [&](auto threads, const LaunchShape& shape) {
      launch(args, shape, forward_kernel<T, decltype(threads)::value>, args.in<T>(0),
             args.out<T>(0), Values(norm), p);
    });
  });
}

/// What is summed over the rows: dy xhat, or dy alone; by element i of dy in column c.
struct WeightGradient {
  const void *dy, *x;
  DType dtype;
  const float *mean, *rstd;
  std::int64_t width, spatial, groups, channels;
  __device__ float operator()(std::int64_t i, std::int64_t c) const {
    const std::int64_t statistic = i / width / spatial * groups + c / channels;
    const float center = mean == nullptr ? 0.0f : mean[statistic];
    return get(dy, dtype, i) * ((get(x, dtype, i) - center) * rstd[statistic]);
  }
};
struct BiasGradient {
  const void* dy;
  DType dtype;
  __device__ float operator()(std::int64_t i, std::int64_t) const { return get(dy, dtype, i); }
};

template <bool kHasMean>
void launch_backward(const KernelArgs& args) {
  const SampleNorm norm = sample_norm(args.attrs(), args.in_type(1).shape);
  const float* means = kHasMean ? args.in<float>(3) : nullptr;
  const float* rstds = args.in<float>(kHasMean ? 4 : 3);
  const DType dtype = args.in_type(0).dtype;
  const std::int64_t count = args.in_type(0).shape.num_elements();
  if (count > 0) {
    const Backward p{args.in<float>(2), means, rstds, norm.num_statistics()};
    dispatch_float(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      dispatch_threads(norm, [&](auto threads, const LaunchShape& shape) {
        launch(args, shape, backward_kernel<T, decltype(threads)::value>, args.in<T>(0),
               args.in<T>(1), args.out<T>(0), Values(norm), p);
      });
    });
  }
  if (norm.width() == 0) return;
  const Shape in{norm.rows(), norm.width()}, out{norm.width()};
  const auto result = [&](int i) {
    return ReduceResult{args.out<float>(i), DType::FP32, 1, args.workspace()};
  };
  dispatch_offset(count, [&](auto tag) {
    using Offset = typename decltype(tag)::type;
    const WeightGradient of_weight{
        args.in<void>(0), args.in<void>(1), dtype,       means,        rstds,
        norm.width(),     norm.spatial,     norm.groups, norm.channels};
    reduce<JoinSum, Offset>(args, of_weight, in, out, result(1));
    if (args.num_out() > 2) {
      reduce<JoinSum, Offset>(args, BiasGradient{args.in<void>(0), dtype}, in, out, result(2));
    }
  });
}

KernelDef backward_kernel_def(const char* op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch, refuse_unless_floating);
  def.workspace_bytes = [](const KernelQuery& query) {
    const SampleNorm norm = sample_norm(query.attrs, query.in[1].shape);
    return reduce_workspace(Shape{norm.rows(), norm.width()}, Shape{norm.width()});
  };
  return def;
}

const KernelRegistration kLayerNorm{
    simple_kernel("layer_norm", launch_forward<true>, refuse_unless_floating)};
const KernelRegistration kGroupNorm{
    simple_kernel("group_norm", launch_forward<true>, refuse_unless_floating)};
const KernelRegistration kRmsNorm{
    simple_kernel("rms_norm", launch_forward<false>, refuse_unless_floating)};
const KernelRegistration kLayerBack{
    backward_kernel_def("layer_norm_backward", launch_backward<true>)};
const KernelRegistration kGroupBack{
    backward_kernel_def("group_norm_backward", launch_backward<true>)};
const KernelRegistration kRmsBack{backward_kernel_def("rms_norm_backward", launch_backward<false>)};

}  // namespace
}  // namespace tr::cuda
