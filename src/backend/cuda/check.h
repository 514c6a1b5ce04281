// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace tr::cuda {

/// @throws DeviceError  naming the call and CUDA's words; OutOfMemory if the device has too little.
void check(cudaError_t status, const char* call);

}  // namespace tr::cuda

/// Every call of the CUDA runtime goes through this.
#define TR_CUDA(call) ::tr::cuda::check((call), #call)
