// SPDX-License-Identifier: Apache-2.0
#include "task/fault_place.h"

#include <algorithm>

#include "core/format.h"

namespace tr {

NameSteps step_names(data::Split split, std::int64_t epoch, std::vector<LaunchedStep> launched,
                     int num_micro) {
  const std::string phase =
      split == data::Split::TRAIN ? fmt::format("epoch {}", epoch + 1) : "the validation";
  return [=, launched = std::move(launched)](std::int64_t first, std::int64_t count) {
    // The executor may know of launches that were no steps of this phase.
    const auto last = std::int64_t(launched.size()) - 1;
    if (last < 0) return "a step of " + phase;
    const LaunchedStep& from = launched[std::size_t(std::clamp<std::int64_t>(first, 0, last))];
    const LaunchedStep& to =
        launched[std::size_t(std::clamp<std::int64_t>(first + count - 1, 0, last))];
    if (from.step != to.step)
      return fmt::format("steps {} to {} of {}", from.step + 1, to.step + 1, phase);
    const bool one = count == 1 && num_micro > 1 && split == data::Split::TRAIN;
    return fmt::format("{}step {} of {}",
                       one ? fmt::format("micro-batch {} of ", from.micro + 1) : "", from.step + 1,
                       phase);
  };
}

}  // namespace tr
