// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/launch.h"

namespace tr::cuda {

bool device_has_tensor_cores() {
  int device = 0, major = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess) {
    cudaGetLastError();
    return true;
  }
  return major >= 8;
}

}  // namespace tr::cuda
