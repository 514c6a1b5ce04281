// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "graph/lowered_graph.h"

namespace tr {

struct ArchPlan;

constexpr std::int64_t kAlignment = 256;           // bytes, of every region and every tensor
constexpr std::int64_t kParamAlignment = 128;      // elements: a parameter has one element offset in all roles

/// All tensors of one role, dtype and bucket, side by side.
struct Region {
  Role role = Role::FEATURE;
  DType dtype = DType::FP32;
  int bucket = 0;
  std::int64_t offset = 0;     // bytes from the arena's start
  std::int64_t bytes = 0;
};

/// One row of the device segment table: a run of elements that an optimizer treats alike. Element offsets
/// count from the start of the role's range and are the same for weights, gradients, moments, EMA, copies.
struct Segment {
  std::int64_t begin = 0;
  std::int64_t count = 0;      // elements, without the padding
  std::int32_t param = -1;
  std::int32_t group = 0;      // column of the step table
  float lr_scale = 1;
  float decay_scale = 0;       // 0: no weight decay
  std::int32_t frozen = 0;
  std::int32_t rows = 0;       // above 0: a matrix that the optimizer treats as a whole
};

struct Placement {
  TensorId tensor = kNoTensor;
  std::int64_t offset = 0;     // bytes from the arena's start
  std::int64_t bytes = 0;
  int first_use = 0;           // node numbers, for messages only; safety is happens-before
  int last_use = 0;
};

/// Places of all tensors of one variant in the one arena of a device.
struct MemoryPlan {
  std::vector<std::int64_t> offsets;        // by TensorId of the lowered graph; views included; -1: none
  std::vector<Placement> placements;        // transient owners only, by offset
  std::int64_t persistent_bytes = 0;        // [0, persistent_bytes) of the arena
  std::int64_t transient_bytes = 0;         // follows it; of this variant
};

/// Plans of all variants over one arena: persistent places are equal in all of them.
struct ArenaPlan {
  std::vector<Region> regions;              // persistent ones in order, then the transient range
  std::vector<Segment> segments;
  std::vector<std::int64_t> param_element_offset;  // by parameter index
  std::int64_t range_elements = 0;          // elements of a parameter role's whole range, padding included
  std::vector<std::int64_t> buffer_element_offset;  // by parameter index; -1 for parameters
  std::int64_t buffer_elements = 0;         // elements of BUFFER's and of BUFFER_NEXT's range
  std::vector<MemoryPlan> variants;
  std::int64_t persistent_bytes = 0;
  std::int64_t transient_bytes = 0;         // maximum over the variants
  /// Inputs have two places: a field's place of zone B is that of zone A (MemoryPlan::offsets) plus this.
  std::int64_t input_zone_bytes = 0;

  std::int64_t peak_bytes() const { return persistent_bytes + transient_bytes; }
  /// First byte of the role's range (its bucket 0), -1 if the plan has none.
  std::int64_t role_offset(Role role) const;
};

struct PlanOptions {
  std::int64_t budget_bytes = std::numeric_limits<std::int64_t>::max();
  /// Nodes of the forward pass run again until the arena is within it (graph/recompute.h); 0: none does.
  std::int64_t recompute_bytes = 0;
  bool reuse = true;                        // off: every transient tensor has a place of its own (tests)
  bool in_place = true;
  bool add_edges = true;                    // off: sharing that needs a further edge is refused
};

/// Gives every transient tensor an offset in [base, ...), a multiple of kAlignment. Two tensors share bytes
/// only if every user of the first happens-before the writer of the second in `graph`, streams included;
/// edges that the plan relies on are added to it. Pure: same graph, same plan.
/// Source: Pisarchyk, Lee 2020, arXiv:2001.03288 (largest first into the lowest gap), over several orders.
/// @throws OutOfMemory  base + peak exceeds the budget; lists the ten largest tensors live at the peak.
MemoryPlan plan_transients(LoweredGraph& graph, std::int64_t base, const PlanOptions& options);

/// Maximum over nodes of the bytes of transient tensors that are live while the node runs in every order
/// that the edges of `graph` allow, from the nodes' reads, writes and aliases alone: a tensor is if one of
/// its writers is the node or before it and one of its users is the node or after it. An allowed in-place
/// pair whose input dies at the node counts once. With one stream this is the exact maximum of live bytes.
/// Shares no code with the planner; call it after planning, when the graph has all its edges.
std::int64_t transient_lower_bound(const LoweredGraph& graph);

/// The node (a number in program order) where the transient tensors of `plan` cover most bytes; -1: none.
int peak_node(const MemoryPlan& plan);

/// The transient tensors live at peak_node(), largest first (then by name), at most `count`; -1: all.
std::vector<Placement> live_at_peak(const LoweredGraph& graph, const MemoryPlan& plan,
                                    int count = 10);

/// The ten (or `count`) largest transient tensors live at the node where most bytes are live, as lines
/// "1.53 GiB  fp16 [256, 112, 112, 256]  conv2.relu.y  live 18..431".
std::vector<std::string> largest_at_peak(const LoweredGraph& graph, const MemoryPlan& plan,
                                         int count = 10);

/// The articles' names of the regions (B_PREV_MEAN ... R_RESULT_ACCUMULATED), then the sentinel "UNNAMED",
/// and the bytes of the arena that each one covers: a printed view that nothing else reads. Every byte counts
/// under one name: persistent bytes by what lies there, transient ones by what lies there at peak_node().
/// Padding and what the articles have no name for is UNNAMED. Table in docs/memory_plan.md.
struct NamedRegion {
  std::string name;
  std::int64_t bytes = 0;
  int num_tensors = 0;
};
std::vector<NamedRegion> article_regions(const LoweredGraph& graph, const ArchPlan& arch,
                                         const ArenaPlan& plan, int variant);

}  // namespace tr
