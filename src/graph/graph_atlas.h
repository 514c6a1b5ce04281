// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "graph/computation_graph.h"

namespace tr {

/// Variant x sub-graph -> run of nodes of a lowered graph: an array look-up, nothing else at run time.
class GraphAtlas {
 public:
  struct Entry {
    int lowered = -1;                          // index of the lowered graph
    std::vector<std::pair<int, int>> runs;     // [first, last) nodes of that label, in order
  };

  GraphAtlas() = default;
  explicit GraphAtlas(std::size_t num_variants)
      : entries_(num_variants), whole_(num_variants, -1) {}

  const Entry& at(int variant, GraphId id) const {
    return entries_[std::size_t(variant)][std::size_t(id)];
  }
  Entry& at(int variant, GraphId id) { return entries_[std::size_t(variant)][std::size_t(id)]; }
  /// Lowered graph of the whole step.
  int whole(int variant) const { return whole_[std::size_t(variant)]; }
  void set_whole(int variant, int lowered) { whole_[std::size_t(variant)] = lowered; }
  std::size_t num_variants() const { return entries_.size(); }

 private:
  std::vector<std::array<Entry, kNumGraphIds>> entries_;
  std::vector<int> whole_;
};

}  // namespace tr
