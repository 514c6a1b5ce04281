// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cudnn_api.h"

#include <map>
#include <mutex>
#include <utility>

#include "backend/cuda/check.h"
#include "backend/cuda/cudnn_info.h"
#include "backend/cuda/library.h"
#include "core/check.h"
#include "core/format.h"

namespace tr::cuda {
namespace {

Cudnn load() {
  const Library library =
      Library::load({.name = "cuDNN",
                     .files = {fmt::format("libcudnn.so.{}", CUDNN_MAJOR)},
                     .install = fmt::format("cuDNN {} or `pip install nvidia-cudnn-cu{}`",
                                            CUDNN_MAJOR, CUDART_VERSION / 1000)});
  Cudnn api;
  api.path = library.path();
  library.resolve("cudnnCreate", api.create);
  library.resolve("cudnnSetStream", api.set_stream);
  library.resolve("cudnnGetVersion", api.get_version);
  library.resolve("cudnnGetErrorString", api.error_string);
  library.resolve("cudnnBackendCreateDescriptor", api.create_descriptor);
  library.resolve("cudnnBackendDestroyDescriptor", api.destroy_descriptor);
  library.resolve("cudnnBackendFinalize", api.finalize);
  library.resolve("cudnnBackendSetAttribute", api.set_attribute);
  library.resolve("cudnnBackendGetAttribute", api.get_attribute);
  library.resolve("cudnnBackendExecute", api.execute);
  return api;
}

std::string version_text(std::size_t version) {  // 91900 is 9.19.0
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

void Cudnn::check(cudnnStatus_t status, const char* call) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw_as<DeviceError>("{}: {}", call, error_string(status));
}

const Cudnn& cudnn() {
  static const Cudnn api = load();  // thread-safe; tried again if it threw
  return api;
}

cudnnHandle_t cudnn_handle() {
  static std::mutex mutex;
  static std::map<int, cudnnHandle_t> handles;
  int device = 0;
  TR_CUDA(cudaGetDevice(&device));
  const std::lock_guard lock(mutex);
  cudnnHandle_t& handle = handles[device];
  if (handle == nullptr) cudnn().check(cudnn().create(&handle), "cudnnCreate");
  return handle;
}

LibraryInfo cudnn_info() {
  LibraryInfo info{.name = "cuDNN", .version = "", .detail = ""};
  try {
    const Cudnn& api = cudnn();
    info.version = version_text(api.get_version());
    info.detail = api.path;
  } catch (const Unsupported& missing) {
    info.detail = missing.what();
  }
  return info;
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  cudnn().check(cudnn().create_descriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) cudnn().destroy_descriptor(descriptor_);
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
  set(name, CUDNN_TYPE_INT64, std::int64_t(values.size()), values.data());
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, float value) {
  set(name, CUDNN_TYPE_FLOAT, 1, &value);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, bool value) {
  set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
  cudnn().check(cudnn().set_attribute(descriptor_, name, type, count, values),
                "cudnnBackendSetAttribute");
}

std::int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, std::int64_t count,
                                  void* values) const {
  std::int64_t written = 0;
  cudnn().check(cudnn().get_attribute(descriptor_, name, type, count, &written, values),
                "cudnnBackendGetAttribute");
  return written;
}

std::int64_t CudnnDescriptor::count(cudnnBackendAttributeName_t name,
                                    cudnnBackendAttributeType_t type) const {
  std::int64_t there = 0;
  const cudnnStatus_t status = cudnn().get_attribute(descriptor_, name, type, 0, &there, nullptr);
  return status == CUDNN_STATUS_SUCCESS ? there : 0;
}

void CudnnDescriptor::finalize() {
  cudnn().check(cudnn().finalize(descriptor_), "cudnnBackendFinalize");
}

std::string CudnnDescriptor::try_finalize() {
  const cudnnStatus_t status = cudnn().finalize(descriptor_);
  return status == CUDNN_STATUS_SUCCESS ? "" : cudnn().error_string(status);
}

}  // namespace tr::cuda
