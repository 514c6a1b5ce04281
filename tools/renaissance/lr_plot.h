// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tr::command {

/// A picture of the learning rate over the steps of a run, as SVG.
std::string lr_svg(std::span<const double> rates, std::int64_t steps_per_epoch,
                   const std::string& title);
/// "step,epoch,lr", then a line a step; both count from 0.
std::string lr_csv(std::span<const double> rates, std::int64_t steps_per_epoch);

}  // namespace tr::command
