// SPDX-License-Identifier: Apache-2.0
#include "task/device.h"

#include "core/check.h"
#include "core/format.h"

namespace tr {

ResolvedDevice resolve_device(const DeviceSetting& setting) {
  if (setting.kind == DeviceSetting::Kind::CUDA) {
    throw_as<Unsupported>(
        "device {} is asked for, but this build has no CUDA backend; call use_cpu(), or run the "
        "program with "
        "TR_OVERRIDE=\"device=cpu\"",
        setting.str());
  }
  ResolvedDevice device;
  if (setting.kind == DeviceSetting::Kind::UNSET) {
    device.announcement = "no device is set: computing on the CPU (this build has no CUDA backend)";
  }
  return device;
}

std::unique_ptr<Executor> make_executor(DeviceKind device, const CompileResult& compiled,
                                        const ExecutorOptions& options) {
  if (device != DeviceKind::CPU)
    throw_as<Unsupported>("device {}: this build has only the CPU", device);
  return make_cpu_executor(compiled, options);
}

}  // namespace tr
