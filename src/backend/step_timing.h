// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tr {

/// When a node of a timed step ran, in seconds since the step began.
struct NodeSpan {
  static constexpr int kInputs = -1;  // no node: the batch was copied or assembled

  int node = 0;
  double start = 0, seconds = 0;
};

/// A step whose nodes ran one after another.
struct StepTiming {
  int variant = 0;
  std::int64_t begin_ns = 0;  // on the clock of now_ns()
  std::vector<NodeSpan> spans;
};

}  // namespace tr
