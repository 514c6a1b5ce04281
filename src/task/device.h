// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/executor.h"
#include "renaissance/core/types.h"
#include "renaissance/task/setting.h"

namespace tr {

/// Where a task computes, after the setting met the machine.
struct ResolvedDevice {
  DeviceKind kind = DeviceKind::CPU;
  std::vector<int> gpus;     // CUDA
  std::string announcement;  // a sentence if the choice was not the user's; else empty
};

/// @throws Unsupported  a GPU is asked for and this build has no CUDA backend; says what to do.
ResolvedDevice resolve_device(const DeviceSetting& setting);

/// @throws OutOfMemory, Unsupported
std::unique_ptr<Executor> make_executor(DeviceKind device, const CompileResult& compiled,
                                        const ExecutorOptions& options);

}  // namespace tr
