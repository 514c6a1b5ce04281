// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "graph/lowered_graph.h"
#include "graph/memory_plan.h"

namespace tr {

/// For two runs of `graph` in a row: the nodes of the first that node i of the second has to wait
/// for, because one of the two writes bytes that the other touches. Edges that follow from others
/// are left out; fields of the batch (Role::INPUT) are not looked at, since each run has its own
/// zone of them. With these edges the end of a step and the beginning of the next run side by side.
/// Pure.
std::vector<std::vector<int>> edges_to_next_run(const LoweredGraph& graph, const MemoryPlan& plan);

}  // namespace tr
