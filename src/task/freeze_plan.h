// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/task/control.h"

namespace tr {

/// Which parameters stand still in which epoch of a run.
struct FreezePlan {
  std::vector<std::vector<std::string>> states = {{}};  // different sets of prefixes
  std::vector<int> of_epoch;                            // state of each epoch, from 0

  bool changes() const { return states.size() > 1; }
  int state(std::int64_t epoch) const {
    return epoch < std::int64_t(of_epoch.size()) ? of_epoch[std::size_t(epoch)] : 0;
  }
};
FreezePlan plan_freezes(std::span<const Freeze> rules, int total_epochs);

/// "features.", "features.@1-5" (epochs 1 to 5), "features.@3-" (from the third on).
/// @throws InvalidArgument  epochs that are no such range.
Freeze parse_freeze(std::string_view text);
std::string to_string(const Freeze& freeze);

}  // namespace tr
