// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/compiler.h"
#include "renaissance/algo/optimizer.h"

namespace tr {

/// The whole-range op of an optimizer, its attributes (those of clipping apart) and number of
/// moments. Weight decay is not among them: it is a column of the step table
/// (Optimizer::weight_decay).
OptimizerSpec optimizer_spec(const Optimizer& optimizer);

}  // namespace tr
