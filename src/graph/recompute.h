// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "graph/lowered_graph.h"
#include "graph/memory_plan.h"

namespace tr {

/// The first node of the backward pass; the number of nodes if the graph has none.
int first_backward(const LoweredGraph& graph);

/// Forward nodes that may run a second time within the backward pass and write the same bytes: they
/// alone write their outputs, which are transient or next values of buffers, and which nobody reads
/// behind the backward pass; they change no state, and nobody changes their inputs meanwhile. (The
/// running statistics that a norm itself hands on may have changed: what it makes of its batch does
/// not depend on them.)
std::vector<bool> may_run_again(const LoweredGraph& graph);

/// Runs the nodes marked in `again` a second time, each right before the first node of the backward
/// pass that needs something of it, which then reads the second copy: the first one dies with its
/// last reader in the forward pass. A copy keeps op, attributes and kernel, so it writes the same
/// bytes; what it would write of next buffers goes to scratch.
LoweredGraph with_recomputation(const LoweredGraph& graph, const std::vector<bool>& again);

/// A transient plan within `goal_bytes`, persistent bytes included.
struct RecomputedPlan {
  LoweredGraph graph;  // with what runs again; edges of the plan included
  MemoryPlan plan;
};

/// Plans `graph` within the goal by running nodes again, those first that free most bytes for the
/// time that they cost (docs/memory_plan.md tells how they are chosen). Pure: no device, no clock.
/// @throws OutOfMemory  the goal cannot be reached; names the smallest one that can.
RecomputedPlan plan_with_recomputation(const LoweredGraph& graph, std::int64_t base,
                                       std::int64_t goal_bytes, const PlanOptions& options);

}  // namespace tr
