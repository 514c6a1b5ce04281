// SPDX-License-Identifier: Apache-2.0
#include "gpu_meter.h"

#include <chrono>

#include "backend/cuda/library.h"
#include "core/format.h"
#include "renaissance/core/error.h"

namespace tr::bench {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(20);
constexpr int kSmClock = 1;  // NVML_CLOCK_SM

/// The four functions of NVML that are used; a status of 0 is success.
struct Nvml {
  int (*init)() = nullptr;
  int (*handle)(unsigned, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;

  Nvml() {
    const auto library =
        cuda::Library::load({"NVML", {"libnvidia-ml.so.1"}, "it comes with the driver"});
    library.resolve("nvmlInit_v2", init);
    library.resolve("nvmlDeviceGetHandleByIndex_v2", handle);
    library.resolve("nvmlDeviceGetClockInfo", clock);
    library.resolve("nvmlDeviceGetPowerUsage", power);
  }
};

}  // namespace

GpuMeter::GpuMeter(int device) {
  try {
    const Nvml nvml;
    void* handle = nullptr;
    if (nvml.init() != 0 || nvml.handle(unsigned(device), &handle) != 0) {
      problem_ = "NVML does not know the GPU";
      return;
    }
    thread_ = std::jthread([this, nvml, handle](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        unsigned mhz = 0, milliwatts = 0;
        if (nvml.clock(handle, kSmClock, &mhz) == 0 && nvml.power(handle, &milliwatts) == 0) {
          clock_sum_ += mhz;
          power_sum_ += double(milliwatts) / 1000;
          ++samples_;
        }
        std::this_thread::sleep_for(kInterval);
      }
    });
  } catch (const Error& missing) {
    problem_ = missing.what();
  }
}

GpuMeter::~GpuMeter() { stop(); }

std::string GpuMeter::stop() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  if (samples_ == 0) return problem_.empty() ? "no samples" : problem_;
  return fmt::format("SM clock {:.0f} MHz, {:.0f} W ({} samples)", clock_sum_ / samples_,
                     power_sum_ / samples_, samples_);
}

}  // namespace tr::bench
