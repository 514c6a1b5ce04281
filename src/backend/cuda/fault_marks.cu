// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/fault_marks.h"

#include "backend/cuda/check.h"

namespace tr::cuda {
namespace {

__global__ void begin_step(volatile FaultMark* mark) {
  mark->node = FaultMark::kBegun;
  mark->step = mark->step + 1;
  __threadfence_system();
}

__global__ void mark_node(volatile FaultMark* mark, int node) {
  mark->node = node;
  __threadfence_system();
}

template <typename... Params, typename... Given>
void launch_one(cudaStream_t stream, void (*kernel)(Params...), Given... given) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  TR_CUDA(cudaLaunchKernelEx(&config, kernel, Params(given)...));
}

}  // namespace

FaultMarks::FaultMarks() {
  void* host = nullptr;
  TR_CUDA(cudaHostAlloc(&host, sizeof(FaultMark), cudaHostAllocMapped));
  host_ = new (host) FaultMark();
  void* device = nullptr;
  TR_CUDA(cudaHostGetDevicePointer(&device, host, 0));
  device_ = static_cast<FaultMark*>(device);
}

FaultMarks::~FaultMarks() { cudaFreeHost(host_); }

StepProbe FaultMarks::probe(cudaStream_t stream) const {
  FaultMark* const mark = device_;
  return {.begin = [=] { launch_one(stream, begin_step, mark); },
          .behind = [=](int node) { launch_one(stream, mark_node, mark, node); }};
}

FaultMark FaultMarks::read() const {
  const volatile FaultMark* now = host_;
  FaultMark mark;
  mark.step = now->step;
  mark.node = now->node;
  return mark;
}

}  // namespace tr::cuda
