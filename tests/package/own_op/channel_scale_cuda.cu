// SPDX-License-Identifier: Apache-2.0
// The kernels of channel_scale for a GPU.
#include "renaissance/backend/user_kernel.h"
#include "renaissance/core/error.h"

using namespace tr;

namespace {

__global__ void scale_kernel(const float* x, const float* weight, float* y, std::int64_t count,
                             std::int64_t channels) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] * weight[i % channels];
}

/// One thread a channel, over the rows in their order: the same bytes from every launch.
__global__ void dweight_kernel(const float* dy, const float* x, float* dweight, std::int64_t count,
                               std::int64_t channels) {
  const std::int64_t c = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  double sum = 0;
  for (std::int64_t i = c; i < count; i += channels) sum += double(dy[i]) * double(x[i]);
  dweight[c] = float(sum);
}

unsigned blocks_for(std::int64_t threads) { return unsigned((threads + 255) / 256); }

void check(cudaError_t status) {
  if (status != cudaSuccess)
    throw DeviceError(std::string("channel_scale: ") + cudaGetErrorString(status));
}

void scale(const KernelCall& call) {
  const std::int64_t count = call.out_type(0).shape.num_elements();
  if (count == 0) return;
  scale_kernel<<<blocks_for(count), 256, 0, static_cast<cudaStream_t>(call.stream())>>>(
      call.in<float>(0), call.in<float>(1), call.out<float>(0), count,
      call.out_type(0).shape.back());
  check(cudaGetLastError());
}

void weight_gradient(const KernelCall& call) {
  const std::int64_t channels = call.out_type(0).shape[0];
  if (channels == 0) return;
  dweight_kernel<<<blocks_for(channels), 256, 0, static_cast<cudaStream_t>(call.stream())>>>(
      call.in<float>(0), call.in<float>(1), call.out<float>(0),
      call.in_type(0).shape.num_elements(), channels);
  check(cudaGetLastError());
}

std::string only_fp32(const Attrs&, std::span<const TensorType> in, std::span<const TensorType>) {
  return in[0].dtype == DType::FP32 ? ""
                                    : "x is " + to_string(in[0]) + ", this kernel takes fp32 alone";
}

}  // namespace

void register_channel_scale_cuda() {
  register_kernel(
      {.op = "channel_scale", .device = DeviceKind::CUDA, .launch = scale, .refuse = only_fp32});
  register_kernel({.op = "channel_scale_dweight",
                   .device = DeviceKind::CUDA,
                   .launch = weight_gradient,
                   .refuse = only_fp32});
}
