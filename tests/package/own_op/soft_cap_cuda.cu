// SPDX-License-Identifier: Apache-2.0
// The kernels of soft_cap for a GPU.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "renaissance/backend/user_kernel.h"
#include "renaissance/core/error.h"

using namespace tr;

namespace {

template <typename T>
__global__ void forward_kernel(const T* x, T* y, std::int64_t count, float cap) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = T(cap * tanhf(float(x[i]) / cap));
}

template <typename T>
__global__ void backward_kernel(const T* dy, const T* y, T* dx, std::int64_t count, float cap) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float part = float(y[i]) / cap;
  dx[i] = T(float(dy[i]) * (1 - part * part));
}

template <typename T>
void launch_as(const KernelCall& call) {
  const std::int64_t count = call.out_type(0).shape.num_elements();
  const float cap = call.attrs().f32("cap");
  const auto stream = static_cast<cudaStream_t>(call.stream());
  const auto blocks = unsigned((count + 255) / 256);
  if (count == 0) return;
  if (call.has_in(1)) {
    backward_kernel<<<blocks, 256, 0, stream>>>(call.in<T>(0), call.in<T>(1), call.out<T>(0), count,
                                                cap);
  } else {
    forward_kernel<<<blocks, 256, 0, stream>>>(call.in<T>(0), call.out<T>(0), count, cap);
  }
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess)
    throw DeviceError(std::string("soft_cap: ") + cudaGetErrorString(status));
}

void launch(const KernelCall& call) {
  switch (call.out_type(0).dtype) {
    case DType::FP16: return launch_as<__half>(call);
    case DType::BF16: return launch_as<__nv_bfloat16>(call);
    default: return launch_as<float>(call);
  }
}

}  // namespace

void register_soft_cap_cuda() {
  register_kernel({.op = "soft_cap", .device = DeviceKind::CUDA, .launch = launch});
  register_kernel({.op = "soft_cap_backward", .device = DeviceKind::CUDA, .launch = launch});
}
