// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "backend/step_timing.h"
#include "graph/compiler.h"
#include "graph/graph_export.h"
#include "renaissance/task/step_times.h"

namespace tr {

/// Sums up timed steps of a compiled run, by variant, in the order of the variants.
std::vector<VariantTimes> summarize(std::span<const StepTiming> timings,
                                    const CompileResult& compiled);

/// Median seconds of each node of a lowered graph; empty if no step of it was timed.
std::vector<double> node_medians(std::span<const StepTiming> timings, const CompileResult& compiled,
                                 int lowered);

/// The lowered graphs under the names of their variants, with the times that were measured.
std::vector<ShownGraph> shown_graphs(const CompileResult& compiled,
                                     std::span<const StepTiming> timings = {});
std::string write_graphs(std::span<const ShownGraph> graphs, GraphFormat format);

/// A table for a terminal: stages, then ops, in microseconds and shares of the step.
std::string to_text(std::span<const VariantTimes> times);
/// [{"variant", "num_steps", "step_us", "stages": [{"name", "us", "share"}], "ops": [likewise]}]
nlohmann::json to_json(std::span<const VariantTimes> times);

}  // namespace tr
