// SPDX-License-Identifier: Apache-2.0
#include "backend/device_fault.h"

#include <algorithm>

#include "core/format.h"

namespace tr {

void LaunchLog::add(int variant, std::int64_t num_steps) {
  if (turns_.empty() || turns_.back().variant != variant) turns_.push_back({variant, 0});
  turns_.back().num_steps += num_steps;
  num_steps_ += num_steps;
}

void LaunchLog::clear() {
  turns_.clear();
  num_steps_ = 0;
}

int LaunchLog::variant_of(std::int64_t step) const {
  if (step < 0) return -1;
  for (const Turn& turn : turns_) {
    if (step < turn.num_steps) return turn.variant;
    step -= turn.num_steps;
  }
  return -1;
}

std::vector<int> LaunchLog::variants() const {
  std::vector<int> all;
  for (const Turn& turn : turns_) {
    if (std::find(all.begin(), all.end(), turn.variant) == all.end()) all.push_back(turn.variant);
  }
  return all;
}

DeviceFaultError::DeviceFaultError(DeviceFault fault)
    : DeviceError(fault_text(fault)), fault_(std::move(fault)) {}

namespace {

std::string counted_steps(std::int64_t first, std::int64_t count) {
  if (count == 1) return fmt::format("step {} since the last wait", first + 1);
  return fmt::format("steps {} to {} since the last wait", first + 1, first + count);
}

/// What the user can do, or why the node is not known.
std::string advice(const DeviceFault& fault) {
  const bool known = !fault.node.empty();
  if (fault.lost && !known && !fault.searched) {
    return "; the device is lost to this process, so its nodes cannot be run again: "
           "locate_faults=true names the one that fails";
  }
  if (fault.lost) return "; the device is lost to this process";
  if (!known && fault.searched) return "; run one by one, the step's nodes show no error";
  return "";
}

}  // namespace

std::string fault_text(const DeviceFault& fault, const NameSteps& name_steps) {
  const NameSteps name = name_steps ? name_steps : NameSteps(counted_steps);
  std::string text = fmt::format("{}: {}", fault.device, fault.error);
  if (fault.step >= 0) {
    text += fmt::format(", in {}", name(fault.step, 1));
  } else if (fault.num_steps > 0) {
    text +=
        fmt::format(", {} {}", fault.num_steps == 1 ? "in" : "in one of", name(0, fault.num_steps));
  }
  if (!fault.variants.empty()) {
    text += fmt::format(", {} {}", fault.variants.size() == 1 ? "graph" : "graphs",
                        fmt::join(fault.variants, ", "));
  }
  if (!fault.node.empty()) text += fmt::format(", {}", fault.node);
  return text + advice(fault);
}

void locate_by_mark(DeviceFault& fault, const FaultMark& mark, std::int64_t ended,
                    const LaunchLog& log,
                    const std::function<std::string(int variant, int node)>& describe) {
  fault.searched = true;
  const std::int64_t step = mark.step - ended - 1;
  const int variant = log.variant_of(step);
  if (variant < 0) return;  // none of these steps had begun: something else failed
  fault.step = step;
  fault.node = describe(variant, mark.node + 1);
}

}  // namespace tr
