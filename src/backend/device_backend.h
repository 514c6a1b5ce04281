// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/engine_search.h"
#include "backend/executor.h"

namespace tr {

/// One device of the machine, as `renaissance info` shows it.
struct DeviceInfo {
  int index = 0;
  std::string name;
  std::string architecture;  // "sm_90"
  std::int64_t memory_bytes = 0;
  int multiprocessors = 0;
};

/// A library that the backend loads when it is needed.
struct LibraryInfo {
  std::string name;     // "cuBLASLt"
  std::string version;  // empty: it was not found
  std::string detail;   // where it is, or where it was looked for
};

/// A kind of device beside the CPU. A build that has one registers it; callers find it by its kind,
/// so that nothing else depends on whether it was built.
struct DeviceBackend {
  DeviceKind kind = DeviceKind::CUDA;
  std::string built_for;  // "CUDA 13.0, sm_90, sm_100"
  /// Devices that can be used now. Starts the driver; empty without one.
  std::function<std::vector<DeviceInfo>()> devices;
  /// Why devices() is empty, as half a sentence: "there is no NVIDIA driver"; else empty.
  std::function<std::string()> why_none;
  std::function<std::vector<LibraryInfo>()> libraries;
  /// Bytes of a device's memory that nothing has taken. @throws DeviceError
  std::function<std::int64_t(int index)> free_memory;
  /// Microseconds that a copy of so many bytes from pinned memory to the device takes; empty:
  /// copies are not measured. @throws OutOfMemory, DeviceError
  std::function<double(int index, std::int64_t bytes)> copy_us;
  /// @throws OutOfMemory, DeviceError
  std::function<std::unique_ptr<Executor>(const CompileResult&, const ExecutorOptions&)>
      make_executor;
  /// Where the engines of device `index` are timed; empty: they are chosen by rank.
  std::function<std::unique_ptr<EngineBench>(int index)> make_bench;
  /// All that measured choices depend on beside the node: the device, driver, libraries and the
  /// sources of the kernels.
  std::function<std::string(int index)> tuning_environment;
};

/// Registers a backend for its own lifetime: the program's, or a test's.
class DeviceBackendRegistration {
 public:
  explicit DeviceBackendRegistration(DeviceBackend backend);
  ~DeviceBackendRegistration();
  DeviceBackendRegistration(const DeviceBackendRegistration&) = delete;
  DeviceBackendRegistration& operator=(const DeviceBackendRegistration&) = delete;

 private:
  const DeviceBackend* own_;
};

/// The backend of that kind, the one registered last; null if there is none.
const DeviceBackend* find_backend(DeviceKind kind);

}  // namespace tr
