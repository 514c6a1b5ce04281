// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "backend/cuda/check.h"

namespace tr::cuda {

/// A table that kernels read, in memory of the current device. Made when a kernel is prepared: it
/// waits for the device.
template <typename T>
class DeviceTable {
 public:
  DeviceTable() = default;
  explicit DeviceTable(const std::vector<T>& rows) : count_(int(rows.size())) {
    if (rows.empty()) return;
    const std::size_t bytes = rows.size() * sizeof(T);
    void* memory = nullptr;
    TR_CUDA(cudaMalloc(&memory, bytes));
    data_ = static_cast<T*>(memory);
    TR_CUDA(cudaMemcpy(memory, rows.data(), bytes, cudaMemcpyHostToDevice));
  }
  ~DeviceTable() { cudaFree(data_); }
  DeviceTable(DeviceTable&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceTable& operator=(DeviceTable&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }

  const T* data() const { return data_; }
  int count() const { return count_; }

 private:
  T* data_ = nullptr;
  int count_ = 0;
};

}  // namespace tr::cuda
