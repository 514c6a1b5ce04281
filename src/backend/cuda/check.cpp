// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/check.h"

#include "core/check.h"
#include "core/format.h"

namespace tr::cuda {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  const std::string text =
      fmt::format("{}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation) throw_as<OutOfMemory>("{}", text);
  throw_as<CudaError>("{}", text);
}

}  // namespace tr::cuda
