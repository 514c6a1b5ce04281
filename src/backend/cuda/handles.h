// SPDX-License-Identifier: Apache-2.0
#pragma once

// CUDA's handles as objects that free themselves.

#include <cuda_runtime_api.h>

#include <utility>

#include "backend/cuda/check.h"

namespace tr::cuda {

struct Stream {
  cudaStream_t handle = nullptr;
  Stream() { TR_CUDA(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

struct Event {
  cudaEvent_t handle = nullptr;
  explicit Event(unsigned flags = cudaEventDefault) {
    TR_CUDA(cudaEventCreateWithFlags(&handle, flags));
  }
  ~Event() {
    if (handle != nullptr) cudaEventDestroy(handle);
  }
  Event(Event&& other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

/// A graph ready to be launched; empty until one is put in.
struct GraphExec {
  cudaGraphExec_t handle = nullptr;
  GraphExec() = default;
  explicit GraphExec(cudaGraphExec_t handle) : handle(handle) {}
  ~GraphExec() {
    if (handle != nullptr) cudaGraphExecDestroy(handle);
  }
  GraphExec(GraphExec&& other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  GraphExec& operator=(GraphExec&& other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
};

}  // namespace tr::cuda
