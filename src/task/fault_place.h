// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "backend/device_fault.h"
#include "data/loader.h"

namespace tr {

/// Steps of an executor as the run counts them.
struct LaunchedStep {
  std::int64_t step = 0;  // of its phase, from 0
  int micro = 0;          // micro-batch of the step
};

/// Names what was launched, in order, for fault_text(): "step 13 of epoch 2", "steps 11 to 20 of
/// epoch 2", "micro-batch 2 of step 13 of epoch 2" where a step has several, "step 3 of the
/// validation". `epoch` counts from 0.
NameSteps step_names(data::Split split, std::int64_t epoch, std::vector<LaunchedStep> launched,
                     int num_micro);

}  // namespace tr
