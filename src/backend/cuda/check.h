// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "renaissance/core/error.h"

namespace tr::cuda {

/// A call of the CUDA runtime that failed; its own fault or that of something launched before it.
class CudaError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// @throws CudaError  naming the call and CUDA's words; OutOfMemory if the device has too little.
void check(cudaError_t status, const char* call);

}  // namespace tr::cuda

/// Every call of the CUDA runtime goes through this.
#define TR_CUDA(call) ::tr::cuda::check((call), #call)
