// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algo/param_groups.h"
#include "graph/compiler.h"
#include "task/batch_plan.h"
#include "task/config.h"
#include "task/freeze_plan.h"

namespace tr {

/// What the compiler is told of the steps: precision, clipping, averages, accumulation, rates, and
/// what is trained.
GraphOptions graph_options(const Config& config, const BatchPlan& batches,
                           const FreezePlan& freezes, const ResolvedGroups& groups = {});

}  // namespace tr
