// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "renaissance/core/error.h"

namespace tr {

/// Steps that were launched and whose end the host has not seen. Adding allocates nothing unless
/// thousands of turns between variants are under way.
class LaunchLog {
 public:
  LaunchLog() { turns_.reserve(1024); }

  void add(int variant, std::int64_t num_steps);
  /// The host has seen all of them end.
  void clear();
  std::int64_t num_steps() const { return num_steps_; }
  /// Variant of step i, counted from the first one after clear(); -1: there is none.
  int variant_of(std::int64_t step) const;
  /// Each variant once, in the order of its first launch.
  std::vector<int> variants() const;

 private:
  struct Turn {
    int variant;
    std::int64_t num_steps;
  };
  std::vector<Turn> turns_;
  std::int64_t num_steps_ = 0;
};

/// The mark that nodes leave under ExecutorOptions::locate_faults. It lies in memory of the host,
/// so it can still be read when the device is lost.
struct FaultMark {
  static constexpr std::int32_t kBegun = -2;   // nothing of the step has ended yet
  static constexpr std::int32_t kInputs = -1;  // the batch is there

  std::int64_t step = 0;       // steps begun since the executor was made
  std::int32_t node = kBegun;  // the last one that ended
};

/// What is known of an error that a device told some time after the launch that made it.
struct DeviceFault {
  std::string device;                 // "GPU 0"
  std::string error;                  // the device's words
  bool lost = false;                  // this process can use the device no more
  std::vector<std::string> variants;  // of the steps that were under way
  std::int64_t num_steps = 0;         // how many they were
  std::int64_t step = -1;             // the one that failed, from 0; -1: not known
  std::string node;                   // what failed in it, in words; empty: not known
  bool searched = false;              // marks, or nodes run one by one, were there to find it
};

class DeviceFaultError : public DeviceError {
 public:
  explicit DeviceFaultError(DeviceFault fault);
  const DeviceFault& fault() const { return fault_; }

 private:
  DeviceFault fault_;
};

/// Puts steps into words: `count` of those under way, from number `first` on.
using NameSteps = std::function<std::string(std::int64_t first, std::int64_t count)>;

/// The fault in one sentence; without `name_steps` the steps are counted from the last wait on.
std::string fault_text(const DeviceFault& fault, const NameSteps& name_steps = {});

/// What the marks say: step and variant of the fault, and the node as `describe(variant, node)`
/// puts it (node FaultMark::kInputs: the batch). `ended` is the number of steps that had begun when
/// `log` was cleared.
void locate_by_mark(DeviceFault& fault, const FaultMark& mark, std::int64_t ended,
                    const LaunchLog& log,
                    const std::function<std::string(int variant, int node)>& describe);

}  // namespace tr
