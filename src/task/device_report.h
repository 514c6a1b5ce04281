// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "backend/device_backend.h"

namespace tr {

/// What this build and machine have of GPUs, for `renaissance info`.
class GpuReport {
 public:
  /// Asks the backend for devices and libraries; null: this build has none.
  explicit GpuReport(const DeviceBackend* backend);

  /// A line on the build, then one for each GPU and each library, or why there is no GPU.
  std::string text() const;
  /// {"built_for", "no_gpu": why there is none, "libraries": [{"name", "version", "detail"}]};
  /// empty texts where there is nothing to say.
  nlohmann::json json() const;
  /// One object a GPU: {"kind", "index", "name", "architecture", "memory_bytes",
  /// "multiprocessors"}.
  nlohmann::json devices_json() const;

 private:
  std::string built_for_;
  std::string no_gpu_;
  std::vector<DeviceInfo> devices_;
  std::vector<LibraryInfo> libraries_;
};

}  // namespace tr
