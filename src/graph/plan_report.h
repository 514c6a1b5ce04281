// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/lowered_graph.h"
#include "graph/memory_plan.h"

namespace tr {

/// "features.3.conv": how messages call a node.
std::string node_name(const LoweredNode& node);

struct LargestTensor {
  std::string name;
  TensorType type;
  std::int64_t bytes = 0;
  int first_use = 0;  // node numbers
  int last_use = 0;
};

/// What runs again in the backward pass, so that less is kept (graph/recompute.h).
struct RecomputedNodes {
  struct Row {
    std::string op;
    int nodes = 0;
    double flops = 0, bytes = 0;  // of one step
  };
  std::vector<Row> by_op;  // most nodes first
  int nodes = 0;
  double flops = 0, bytes = 0;
  double step_flops = 0;  // of the whole step without them
};

/// What `renaissance plan` shows of an arena.
struct PlanReport {
  std::vector<Region> regions;
  std::vector<NamedRegion>
      article_names;  // of the variant with the largest transients; without zeros
  std::int64_t peak_bytes = 0;
  std::int64_t persistent_bytes = 0;
  std::int64_t transient_bytes = 0;
  std::int64_t lower_bound_bytes = 0;  // of the transients: maximum over the variants
  int variant = 0;                     // the one with the largest transients
  int step = -1;                       // its peak: node `step` of `num_steps`
  int num_steps = 0;
  std::string step_name;               // "conv3.conv_dx"
  std::vector<LargestTensor> largest;  // live at the peak, ten at most
  RecomputedNodes recomputed;          // of the variant above

  /// transient_bytes / lower_bound_bytes; 1 if there are no transients.
  double ratio() const;
  std::string text() const;
  /// Keys peak_bytes, persistent_bytes, transient_bytes, lower_bound_bytes, regions[] {role, dtype,
  /// bucket, offset, bytes}, article_regions[] {name, bytes, tensors}, peak {step, steps, name},
  /// largest[] {name, dtype, shape, bytes, first_use, last_use}, run_again {nodes, flops, bytes,
  /// step_flops, by_op[] {op, nodes, flops, bytes}}. One JSON object.
  std::string json() const;
};

/// `graphs[i]` is the graph of plan.variants[i], after planning.
PlanReport report_plan(std::span<const LoweredGraph> graphs, const ArchPlan& arch,
                       const ArenaPlan& plan);

/// The largest batch b >= 1 with peak_of_batch(b) <= budget_bytes, by doubling, then bisection; 0
/// if none fits. Peaks are taken to grow with the batch. Batches for which peak_of_batch throws
/// InvalidArgument are none. @throws what else peak_of_batch throws.
std::int64_t largest_batch(std::int64_t budget_bytes,
                           const std::function<std::int64_t(std::int64_t batch)>& peak_of_batch,
                           std::int64_t limit = std::int64_t{1} << 46);

}  // namespace tr
