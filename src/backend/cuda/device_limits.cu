// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "backend/cuda/launch.h"

namespace tr::cuda {
namespace {

/// Asked for its attributes only: every kernel of this module is compiled as it is.
__global__ void sample_kernel() {}

}  // namespace

int code_capability() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, sample_kernel) == cudaSuccess) {
    return attributes.ptxVersion;
  }
  cudaGetLastError();
  return std::numeric_limits<int>::max();
}

std::int64_t most_shared_bytes() {
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
          cudaSuccess) {
    return bytes;
  }
  cudaGetLastError();
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace tr::cuda
