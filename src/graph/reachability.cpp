// SPDX-License-Identifier: Apache-2.0
#include "graph/reachability.h"

#include <algorithm>

#include "core/check.h"

namespace tr {

Reachability::Reachability(std::size_t num_nodes)
    : words_((num_nodes + 63) / 64), rows_(num_nodes * words_, 0) {}

Reachability::Reachability(const LoweredGraph& graph) : Reachability(graph.nodes.size()) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) set_deps(int(n), graph.nodes[n].deps);
}

void Reachability::set_deps(int node, const std::vector<int>& deps) {
  std::uint64_t* row = &rows_[std::size_t(node) * words_];
  for (const int dep : deps) {
    TR_ASSERT(dep >= 0 && dep < node);
    const std::uint64_t* ancestors = &rows_[std::size_t(dep) * words_];
    for (std::size_t w = 0; w < words_; ++w) row[w] |= ancestors[w];
    row[std::size_t(dep) / 64] |= std::uint64_t{1} << (dep % 64);
  }
}

std::vector<int> Reachability::without_redundant(std::vector<int> deps, int keep) const {
  // A node is ordered only after nodes of smaller number: descending, each one's cover is known
  // already.
  std::sort(deps.begin(), deps.end(), std::greater<>());
  deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
  std::vector<int> needed;
  for (const int dep : deps) {
    const bool covered =
        std::any_of(needed.begin(), needed.end(), [&](int later) { return ordered(dep, later); });
    if (!covered || dep == keep) needed.push_back(dep);
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

}  // namespace tr
