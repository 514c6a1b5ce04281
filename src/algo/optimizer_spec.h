// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/compiler.h"
#include "renaissance/algo/optimizer.h"
#include "renaissance/algo/scheduler.h"

namespace tr {

/// The whole-range op of an optimizer, its attributes (those of clipping apart) and number of
/// moments. Weight decay is not among them: it is a column of the step table
/// (Optimizer::weight_decay).
OptimizerSpec optimizer_spec(const Optimizer& optimizer);
/// GraphOptions::matrices_except of an optimizer.
std::optional<std::vector<std::string>> matrices_except(const Optimizer& optimizer);
/// Whether weights of two axes are matrices to it.
bool moves_matrices(Optimizer::Kind kind);

/// The same under a schedule. One that moves the momentum, or parameter groups that set momenta or
/// betas, choose the op that reads them from the step table; most parameters are of column `group`.
/// @throws InvalidArgument  the schedule moves a momentum, and the optimizer is not SGD, Adam or
/// AdamW, or groups set it too.
OptimizerSpec optimizer_spec(const Optimizer& optimizer, const Scheduler& scheduler, int group,
                             bool groups_set_momenta = false);

}  // namespace tr
