// SPDX-License-Identifier: Apache-2.0
#include "task/device_report.h"

#include <nlohmann/json.hpp>

#include "core/format.h"
#include "core/human.h"

namespace tr {

GpuReport::GpuReport(const DeviceBackend* backend) {
  if (backend == nullptr) {
    no_gpu_ = "this build has no CUDA backend (no nvcc was found, or TR_CUDA=OFF)";
    return;
  }
  built_for_ = backend->built_for;
  devices_ = backend->devices();
  if (devices_.empty()) no_gpu_ = backend->why_none();
  libraries_ = backend->libraries();
}

std::string GpuReport::text() const {
  std::string text = built_for_.empty() ? "" : fmt::format("cuda   built for {}\n", built_for_);
  if (devices_.empty()) text += fmt::format("gpu    no GPU: {}\n", no_gpu_);
  for (const DeviceInfo& gpu : devices_) {
    text += fmt::format("gpu {:<2} {}, {}, {}, {} multiprocessors\n", gpu.index, gpu.name,
                        gpu.architecture, format_bytes(gpu.memory_bytes), gpu.multiprocessors);
  }
  for (const LibraryInfo& library : libraries_) {
    const bool found = !library.version.empty();
    text += fmt::format("{:<14} {}{}\n", library.name,
                        found ? library.version + ", " : "not found: ", library.detail);
  }
  return text;
}

nlohmann::json GpuReport::json() const {
  nlohmann::json libraries = nlohmann::json::array();
  for (const LibraryInfo& library : libraries_) {
    libraries.push_back(
        {{"name", library.name}, {"version", library.version}, {"detail", library.detail}});
  }
  return {{"built_for", built_for_}, {"no_gpu", no_gpu_}, {"libraries", libraries}};
}

nlohmann::json GpuReport::devices_json() const {
  nlohmann::json devices = nlohmann::json::array();
  for (const DeviceInfo& gpu : devices_) {
    devices.push_back({{"kind", "cuda"},
                       {"index", gpu.index},
                       {"name", gpu.name},
                       {"architecture", gpu.architecture},
                       {"memory_bytes", gpu.memory_bytes},
                       {"multiprocessors", gpu.multiprocessors}});
  }
  return devices;
}

}  // namespace tr
