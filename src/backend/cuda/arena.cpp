// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/arena.h"

#include "backend/cuda/check.h"
#include "core/check.h"
#include "core/human.h"

namespace tr::cuda {
namespace {

class DeviceArena final : public Arena {
 public:
  explicit DeviceArena(std::int64_t num_bytes) : num_bytes_(num_bytes) {
    std::size_t free_bytes = 0, all_bytes = 0;
    TR_CUDA(cudaMemGetInfo(&free_bytes, &all_bytes));
    void* memory = nullptr;
    // One byte at least: an address is needed also where nothing lies behind it.
    const cudaError_t status = cudaMalloc(&memory, std::size_t(num_bytes > 0 ? num_bytes : 1));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // the error is told here and must not stick
      throw_as<OutOfMemory>("device arena: {} ({} bytes) could not be had, {} of {} are free",
                            format_bytes(num_bytes), num_bytes,
                            format_bytes(std::int64_t(free_bytes)),
                            format_bytes(std::int64_t(all_bytes)));
    }
    check(status, "cudaMalloc");
    base_ = static_cast<std::byte*>(memory);
    TR_CUDA(cudaMemset(base_, 0, std::size_t(num_bytes)));
  }
  ~DeviceArena() override { cudaFree(base_); }
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  std::byte* base() override { return base_; }
  std::int64_t num_bytes() const override { return num_bytes_; }

 private:
  std::int64_t num_bytes_;
  std::byte* base_ = nullptr;
};

}  // namespace

std::unique_ptr<Arena> make_device_arena(std::int64_t num_bytes) {
  return std::make_unique<DeviceArena>(num_bytes);
}

}  // namespace tr::cuda
