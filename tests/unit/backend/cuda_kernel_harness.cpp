// SPDX-License-Identifier: Apache-2.0
#include "cuda_kernel_harness.h"

#include <algorithm>
#include <memory>

#include "backend/cuda/check.h"
#include "support/compare.h"
#include "support/device.h"

namespace tr::test {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr int kGuard = 0xa5;
constexpr int kPoison = 0xff;

/// Device memory between guards, aligned to 256 as the arena is.
class DeviceMemory final : public KernelMemory {
 public:
  ~DeviceMemory() override {
    for (const Buffer& buffer : buffers_) cudaFree(buffer.start);
  }
  std::byte* add(std::size_t bytes) override {
    Buffer buffer{nullptr, bytes};
    TR_CUDA(cudaMalloc(&buffer.start, bytes + 2 * kGuardBytes));
    buffers_.push_back(buffer);
    auto* data = static_cast<std::byte*>(buffer.start) + kGuardBytes;
    TR_CUDA(cudaMemset(buffer.start, kGuard, bytes + 2 * kGuardBytes));
    TR_CUDA(cudaMemset(data, kPoison, bytes));
    return data;
  }
  void write(void* to, const void* from, std::size_t bytes) override {
    TR_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  }
  void read(void* to, const void* from, std::size_t bytes) override {
    TR_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }
  bool intact() override {
    return std::all_of(buffers_.begin(), buffers_.end(), [&](const Buffer& buffer) {
      const auto* start = static_cast<const std::byte*>(buffer.start);
      return is_guard(start) && is_guard(start + kGuardBytes + buffer.bytes);
    });
  }

 private:
  struct Buffer {
    void* start;
    std::size_t bytes;
  };
  bool is_guard(const std::byte* place) {
    std::byte guard[kGuardBytes];
    read(guard, place, kGuardBytes);
    return std::all_of(guard, guard + kGuardBytes,
                       [](std::byte b) { return b == std::byte(kGuard); });
  }
  std::vector<Buffer> buffers_;
};

void run_captured(cudaStream_t stream, const std::function<void()>& launch) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  TR_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  launch();
  TR_CUDA(cudaStreamEndCapture(stream, &graph));
  TR_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  TR_CUDA(cudaGraphLaunch(exec, stream));
  TR_CUDA(cudaStreamSynchronize(stream));
  TR_CUDA(cudaGraphExecDestroy(exec));
  TR_CUDA(cudaGraphDestroy(graph));
}

bool equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].empty() && !same_bytes(a[i], b[i])) return false;
  }
  return true;
}

}  // namespace

std::string no_gpu_reason() { return why_no_device(DeviceKind::CUDA); }

KernelResult run_cuda_kernel(const KernelCall& call, Launched how) {
  cudaStream_t stream = nullptr;
  TR_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const std::unique_ptr<CUstream_st, cudaError_t (*)(cudaStream_t)> owned(stream,
                                                                          cudaStreamDestroy);
  DeviceMemory memory;
  const auto run = [&](const std::function<void()>& launch) {
    TR_CUDA(cudaDeviceSynchronize());  // the buffers are written by another stream
    if (how == Launched::CAPTURED) return run_captured(stream, launch);
    launch();
    TR_CUDA(cudaStreamSynchronize(stream));
  };
  return run_kernel_at(
      call, {.device = DeviceKind::CUDA, .memory = memory, .stream = stream, .run = run});
}

bool same_bytes_every_launch(const KernelCall& call) {
  const KernelResult first = run_cuda_kernel(call);
  for (const Launched how : {Launched::DIRECTLY, Launched::CAPTURED}) {
    const KernelResult again = run_cuda_kernel(call, how);
    if (!equal(first.outputs, again.outputs) || !equal(first.inputs, again.inputs)) return false;
  }
  return true;
}

}  // namespace tr::test
