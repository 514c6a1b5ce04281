// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "task/compiled_run.h"

namespace tr {

/// Decides where the last pass of the run's images runs (key normalize_on), before graphs are
/// built. On a device: `run.fields` of training and validation become what the loader then feeds,
/// and what the graphs need is returned. A measured choice is an entry of run.tuning.
/// @throws Unsupported  the graphs must do it and cannot, and why.
std::optional<RawImages> decide_raw_images(CompiledRun& run);

}  // namespace tr
