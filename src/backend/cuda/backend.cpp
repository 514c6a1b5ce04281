// SPDX-License-Identifier: Apache-2.0
// What the rest of the program knows of this folder: its devices and its executor.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "backend/cuda/arena.h"
#include "backend/cuda/check.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/cudnn_info.h"
#include "backend/cuda/engine_bench.h"
#include "backend/cuda/executor.h"
#include "backend/cuda/handles.h"
#include "backend/device_backend.h"
#include "core/format.h"
#include "device/arena.h"

namespace tr::cuda {
namespace {

/// Number of usable GPUs; a machine without a driver has none.
int device_count(cudaError_t& status) {
  int count = 0;
  status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

std::vector<DeviceInfo> devices() {
  cudaError_t status;
  std::vector<DeviceInfo> all(std::size_t(device_count(status)));
  for (int i = 0; i < int(all.size()); ++i) {
    cudaDeviceProp properties{};
    TR_CUDA(cudaGetDeviceProperties(&properties, i));
    DeviceInfo& info = all[std::size_t(i)];
    info.index = i;
    info.name = properties.name;
    info.architecture = fmt::format("sm_{}{}", properties.major, properties.minor);
    info.memory_bytes = std::int64_t(properties.totalGlobalMem);
    info.multiprocessors = properties.multiProcessorCount;
  }
  return all;
}

std::string version_text(int version) {  // 13000 is 13.0
  return fmt::format("{}.{}", version / 1000, version / 10 % 100);
}

std::string why_none() {
  cudaError_t status;
  if (device_count(status) > 0) return "";
  int driver = 0;
  TR_CUDA(cudaDriverGetVersion(&driver));
  if (driver == 0) return "there is no NVIDIA driver";
  if (status == cudaSuccess || status == cudaErrorNoDevice) return "the driver finds no GPU";
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format("the driver is for CUDA {}, this build needs {}", version_text(driver),
                       version_text(CUDART_VERSION));
  }
  return fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
}

std::int64_t free_memory(int index) {
  std::size_t free_bytes = 0, all_bytes = 0;
  TR_CUDA(cudaSetDevice(index));
  TR_CUDA(cudaMemGetInfo(&free_bytes, &all_bytes));
  return std::int64_t(free_bytes);
}

/// The least of some copies of at most kMostCopied bytes, which is enough to see the rate.
double copy_us(int index, std::int64_t bytes) {
  constexpr std::int64_t kMostCopied = 32 << 20;
  constexpr int kCopies = 5;
  const std::int64_t copied = std::clamp<std::int64_t>(bytes, 1, kMostCopied);
  TR_CUDA(cudaSetDevice(index));
  const auto arena = make_device_arena(copied);
  const auto from = make_host_arena(copied);
  TR_CUDA(cudaHostRegister(from->base(), std::size_t(copied), cudaHostRegisterDefault));
  double least_ms = 0;
  {
    const Stream stream;
    const Event begin, end;
    for (int i = 0; i < kCopies; ++i) {
      TR_CUDA(cudaEventRecord(begin.handle, stream.handle));
      TR_CUDA(cudaMemcpyAsync(arena->base(), from->base(), std::size_t(copied),
                              cudaMemcpyHostToDevice, stream.handle));
      TR_CUDA(cudaEventRecord(end.handle, stream.handle));
      TR_CUDA(cudaEventSynchronize(end.handle));
      float ms = 0;
      TR_CUDA(cudaEventElapsedTime(&ms, begin.handle, end.handle));
      least_ms = i == 0 ? double(ms) : std::min(least_ms, double(ms));
    }
  }
  TR_CUDA(cudaHostUnregister(from->base()));
  return least_ms * 1e3 * double(bytes) / double(copied);
}

const DeviceBackendRegistration kCuda{{
    .kind = DeviceKind::CUDA,
    .built_for = fmt::format("CUDA {}, {}", version_text(CUDART_VERSION), TR_CUDA_TARGETS),
    .devices = devices,
    .why_none = why_none,
    .libraries =
        [] {
          return std::vector{cublaslt_info(), cudnn_info()};
        },
    .free_memory = free_memory,
    .copy_us = copy_us,
    .make_executor = make_executor,
    .make_bench = make_engine_bench,
    .tuning_environment = tuning_environment,
}};

}  // namespace
}  // namespace tr::cuda
