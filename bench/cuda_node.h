// SPDX-License-Identifier: Apache-2.0
#pragma once

// One node of a step by itself on a GPU, launched and timed again and again.

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/kernel.h"
#include "core/check.h"
#include "core/format.h"
#include "device/single_communicator.h"
#include "graph/op_def.h"

namespace tr::bench {

// Of floating tensors, so that sums stay finite: each fp32 is 0.0115, each fp16 1.06. Others are
// zero: as places, counters and flags these bytes would be nonsense.
constexpr int kFill = 0x3c;

/// Device memory full of zeros.
inline std::byte* allocate(std::int64_t bytes) {
  void* data = nullptr;
  TR_CUDA(cudaMalloc(&data, std::size_t(std::max<std::int64_t>(bytes, 1))));
  TR_CUDA(cudaMemset(data, 0, std::size_t(bytes)));
  return static_cast<std::byte*>(data);
}

inline std::byte* allocate(const TensorType& type) {
  std::byte* data = allocate(bytes_of(type));
  if (is_floating(type.dtype)) TR_CUDA(cudaMemset(data, kFill, std::size_t(bytes_of(type))));
  return data;
}

class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    TR_CUDA(cudaEventCreate(&begin_));
    TR_CUDA(cudaEventCreate(&end_));
  }
  /// Seconds of each of `n` calls, after three that are not counted.
  template <typename F>
  std::vector<double> samples(int n, F&& enqueue) const {
    std::vector<double> seconds;
    TR_CUDA(cudaDeviceSynchronize());  // what is read was written by another stream
    for (int i = -3; i < n; ++i) {
      TR_CUDA(cudaEventRecord(begin_, stream_));
      enqueue();
      TR_CUDA(cudaEventRecord(end_, stream_));
      TR_CUDA(cudaEventSynchronize(end_));
      float ms = 0;
      TR_CUDA(cudaEventElapsedTime(&ms, begin_, end_));
      if (i >= 0) seconds.push_back(double(ms) * 1e-3);
    }
    return seconds;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// One node, ready to be launched again and again. Inputs of `absent` are missing.
class Node {
 public:
  Node(const std::string& op, const Attrs& attrs, const std::vector<TensorType>& in,
       cudaStream_t stream, const std::vector<std::size_t>& absent = {})
      : def_(OpRegistry::instance().get(op)), attrs_(complete_attrs(def_, attrs)) {
    args_.attrs_ = &attrs_;
    args_.in_types_ = in;
    args_.out_types_ = def_.infer(attrs_, in);
    const KernelQuery query{attrs_, args_.in_types_, args_.out_types_};
    for (const KernelDef* kernel : kernels_of(op, DeviceKind::CUDA)) {
      if (kernel_ == nullptr && (!kernel->refuse || kernel->refuse(query).empty()))
        kernel_ = kernel;
    }
    TR_CHECK(kernel_ != nullptr, "{}: no CUDA kernel takes it", op);
    for (const TensorType& type : in) args_.in_slots_.push_back(add(type));
    for (const std::size_t input : absent) args_.in_slots_.at(input) = -1;
    for (const TensorType& type : args_.out_types_) args_.out_slots_.push_back(add(type));
    args_.workspace_bytes_ = kernel_->workspace_bytes ? kernel_->workspace_bytes(query) : 0;
    pointers_.push_back(allocate(args_.workspace_bytes_));
    args_.workspace_slot_ = std::int32_t(pointers_.size() - 1);
    args_.pointers_ = pointers_.data();
    args_.stream_ = stream;
    args_.communicator_ = &ranks_;
    if (kernel_->prepare) prepared_ = kernel_->prepare(query, 1);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() {
    for (void* pointer : pointers_) cudaFree(pointer);
  }

  /// Sets the whole input. All values that a kernel takes for places or counts come from here.
  template <typename T>
  void write(std::size_t input, const std::vector<T>& values) {
    const auto bytes = std::int64_t(values.size() * sizeof(T));
    TR_CHECK(bytes == bytes_of(args_.in_types_.at(input)), "input {} is {}, given {} bytes", input,
             args_.in_types_.at(input), bytes);
    TR_CUDA(cudaMemcpy(address(input), values.data(), std::size_t(bytes), cudaMemcpyHostToDevice));
  }
  /// Address of input `input`.
  void* address(std::size_t input) const {
    return pointers_.at(std::size_t(args_.in_slots_.at(input)));
  }
  void enqueue() const { prepared_ ? prepared_->run(args_) : kernel_->launch(args_); }
  Cost cost() const { return def_.cost(attrs_, args_.in_types_, args_.out_types_); }
  const std::string& kernel() const { return kernel_->name; }

 private:
  std::int32_t add(const TensorType& type) {
    pointers_.push_back(allocate(type));
    return std::int32_t(pointers_.size() - 1);
  }

  const OpDef& def_;
  Attrs attrs_;
  const KernelDef* kernel_ = nullptr;
  std::vector<void*> pointers_;
  KernelArgs args_;
  SingleCommunicator ranks_;
  std::unique_ptr<PreparedKernel> prepared_;
};

}  // namespace tr::bench
