// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tr {

/// How a compiled graph is written down: JSON, or the dot language of graphviz.
enum class GraphFormat : std::uint8_t { JSON, DOT };

/// A part of a timed step: a sub-graph ("backward") or a single op ("003 fc 2").
struct PartTime {
  std::string name;
  double seconds = 0;  // median over the timed steps
  double share = 0;    // of the sum of the step's ops, 0 to 1
};

/// Times of the steps of one variant, their nodes run one after another.
struct VariantTimes {
  std::string variant;           // "train_200"
  std::int64_t num_steps = 0;    // timed
  double step_seconds = 0;       // median of the sum over a step's ops
  std::vector<PartTime> stages;  // in the order of their first node
  std::vector<PartTime> ops;     // in the order of the step; "inputs": the batch is copied or made
};

}  // namespace tr
