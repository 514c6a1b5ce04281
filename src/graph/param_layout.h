// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/arch_plan.h"
#include "graph/compiler.h"
#include "graph/memory_plan.h"

namespace tr {

/// Where each parameter lies inside the range of every parameter role (weights, gradients, moments,
/// EMA, 16-bit copies), in elements. Parameters stand in the order in which the backward pass
/// completes their gradients (last layer first), each at a multiple of kParamAlignment; buckets are
/// cut in that order.
struct ParamLayout {
  std::vector<std::int64_t> element_offset;                    // by parameter index; -1 for buffers
  std::int64_t range_elements = 0;                             // padding included
  std::vector<std::pair<std::int64_t, std::int64_t>> buckets;  // [begin, end) elements
  std::vector<Segment> segments;                               // by element offset
  std::vector<std::int64_t> buffer_offset;  // by parameter index; -1 for parameters
  std::int64_t buffer_elements = 0;
};

/// Columns of the step table: one a rule of options.groups, in order, one for what no rule matches,
/// then those of ParamRates::column.
int num_param_groups(const GraphOptions& options);

/// Pure. Groups and decay from options.groups (Segment::group is the rule's index); buckets of FP32
/// gradients are cut at options.bucket_bytes (one at world size 1; a larger parameter is a bucket
/// of its own).
/// @throws InvalidArgument  bucket_bytes < 1, or a parameter that is not FP32.
ParamLayout layout_params(const ArchPlan& plan, const GraphOptions& options);

}  // namespace tr
