// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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
  std::string built_for;  // "CUDA 13.0, sm_90"
  /// Devices that can be used now. Starts the driver; empty without one.
  std::function<std::vector<DeviceInfo>()> devices;
  /// Why devices() is empty: "no driver", ...
  std::function<std::string()> why_none;
  std::function<std::vector<LibraryInfo>()> libraries;
  /// @throws OutOfMemory, DeviceError
  std::function<std::unique_ptr<Executor>(const CompileResult&, const ExecutorOptions&)>
      make_executor;
};

struct DeviceBackendRegistration {
  explicit DeviceBackendRegistration(DeviceBackend backend);
};

/// The backend of that kind, null if this build has none.
const DeviceBackend* find_backend(DeviceKind kind);

}  // namespace tr
