// SPDX-License-Identifier: Apache-2.0
#include "task/device.h"

#include <algorithm>

#include "core/check.h"
#include "core/format.h"

namespace tr {

namespace {

constexpr const char* kUseTheCpu =
    "at a shell say --device cpu; in a program call use_cpu(), or run it with "
    "TR_OVERRIDE=\"device=cpu\"";

/// Why this build and machine have no GPU to compute on.
std::string why_no_gpu(const DeviceBackend* backend) {
  return backend == nullptr ? "this build has no CUDA backend" : backend->why_none();
}

/// The GPU that was asked for. @throws Unsupported, InvalidArgument
int chosen_gpu(const DeviceSetting& setting, const std::vector<DeviceInfo>& devices) {
  if (setting.gpus.empty()) return devices.front().index;
  if (setting.gpus.size() > 1) {
    throw_as<Unsupported>(
        "device {} asks for {} GPUs, but training on several is not built yet; name one",
        setting.str(), setting.gpus.size());
  }
  const int wanted = setting.gpus.front();
  const bool there = std::any_of(devices.begin(), devices.end(),
                                 [&](const DeviceInfo& device) { return device.index == wanted; });
  TR_CHECK(there, "device {}: there is no GPU {}, expected 0 to {}", setting.str(), wanted,
           devices.back().index);
  return wanted;
}

}  // namespace

ResolvedDevice resolve_device(const DeviceSetting& setting, const DeviceBackend* cuda) {
  ResolvedDevice resolved;
  if (setting.kind == DeviceSetting::Kind::CPU) return resolved;
  const std::vector<DeviceInfo> devices =
      cuda == nullptr ? std::vector<DeviceInfo>{} : cuda->devices();
  const bool asked = setting.kind == DeviceSetting::Kind::CUDA;
  if (devices.empty()) {
    if (asked) {
      throw_as<Unsupported>("device {} is asked for, but {}; {}", setting.str(), why_no_gpu(cuda),
                            kUseTheCpu);
    }
    resolved.announcement =
        fmt::format("no device is set: computing on the CPU ({})", why_no_gpu(cuda));
    return resolved;
  }
  resolved.kind = DeviceKind::CUDA;
  resolved.gpus = {chosen_gpu(setting, devices)};
  const std::size_t idle = devices.size() - 1;
  if (!asked || (setting.gpus.empty() && idle > 0)) {
    resolved.announcement =
        fmt::format("{}: computing on GPU {}, {}{}",
                    asked ? "all GPUs are asked for" : "no device is set", resolved.gpus.front(),
                    devices.front().name, idle > 0 ? fmt::format("; {} more stay idle", idle) : "");
  }
  return resolved;
}

void check_ranks(int num_ranks, const ResolvedDevice& device) {
  if (num_ranks == 1 || device.kind == DeviceKind::CPU) return;
  throw_as<Unsupported>(
      "cpu_ranks is {} and the run would compute on GPU {}: ranks as threads exist on the CPU "
      "only; "
      "{}",
      num_ranks, device.gpus.front(), kUseTheCpu);
}

std::unique_ptr<Executor> make_executor(DeviceKind device, const CompileResult& compiled,
                                        const ExecutorOptions& options) {
  if (device == DeviceKind::CPU) return make_cpu_executor(compiled, options);
  const DeviceBackend* backend = find_backend(device);
  const bool any = backend != nullptr && !backend->devices().empty();
  if (!any) throw_as<Unsupported>("device {}: {}", device, why_no_gpu(backend));
  return backend->make_executor(compiled, options);
}

}  // namespace tr
