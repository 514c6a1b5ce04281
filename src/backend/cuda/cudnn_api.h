// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tr::cuda {

/// The functions of cuDNN that are used, by address: the library is loaded when the first
/// convolution is planned.
struct Cudnn {
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnGetVersion) get_version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
  std::string path;

  /// @throws DeviceError  naming the call and cuDNN's words.
  void check(cudnnStatus_t status, const char* call) const;
};

/// Loads it at the first call. @throws Unsupported  it is missing; names the places looked at.
const Cudnn& cudnn();

/// The handle of the current device, made once and kept until the process ends.
cudnnHandle_t cudnn_handle();

/// A descriptor of cuDNN's graphs, destroyed with its owner. Setters throw DeviceError.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  void set(cudnnBackendAttributeName_t name, std::int64_t value);
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values);
  void set(cudnnBackendAttributeName_t name, float value);
  void set(cudnnBackendAttributeName_t name, bool value);
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  /// Any other type.
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  /// Number of values read into `values`, at most `count`.
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::int64_t count, void* values) const;
  /// How many values there are; 0 where cuDNN has none to tell.
  std::int64_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;

  void finalize();
  /// The same, but a refusal is an answer: cuDNN's words, empty if it is ready.
  std::string try_finalize();

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace tr::cuda
