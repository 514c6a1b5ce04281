// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <thread>

namespace tr::bench {

/// Means of a GPU's clock and power while it lives, sampled through NVML by a thread of its own.
class GpuMeter {
 public:
  explicit GpuMeter(int device);
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  /// "SM clock 1590 MHz, 693 W (41 samples)", or why there are none. Ends the sampling.
  std::string stop();

 private:
  std::jthread thread_;
  double clock_sum_ = 0, power_sum_ = 0;
  int samples_ = 0;
  std::string problem_;
};

}  // namespace tr::bench
