// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device_backend.h"
#include "renaissance/core/types.h"
#include "renaissance/task/setting.h"

namespace tr {

/// Where a task computes, after the setting met the machine.
struct ResolvedDevice {
  DeviceKind kind = DeviceKind::CPU;
  std::vector<int> gpus;     // CUDA
  std::string announcement;  // a sentence if the choice was not the user's; else empty
};

/// What `setting` means on this machine, whose GPUs `cuda` finds (null: this build has no backend).
/// @throws Unsupported  a GPU is asked for and there is none, or several are; says what to do.
/// @throws InvalidArgument  there is no GPU of that number.
ResolvedDevice resolve_device(const DeviceSetting& setting,
                              const DeviceBackend* cuda = find_backend(DeviceKind::CUDA));

/// Ranks are threads on the CPU: more than one need it. @throws Unsupported  `device` is a GPU.
void check_ranks(int num_ranks, const ResolvedDevice& device);

/// @throws OutOfMemory, Unsupported
std::unique_ptr<Executor> make_executor(DeviceKind device, const CompileResult& compiled,
                                        const ExecutorOptions& options);

}  // namespace tr
