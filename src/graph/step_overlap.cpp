// SPDX-License-Identifier: Apache-2.0
#include "graph/step_overlap.h"

#include <algorithm>

#include "core/check.h"

namespace tr {
namespace {

struct Bytes {
  std::int64_t begin, end;
};

bool overlap(const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Bytes& x) {
    return std::any_of(b.begin(), b.end(),
                       [&](const Bytes& y) { return x.begin < y.end && y.begin < x.end; });
  });
}

/// What a node touches of the arena.
struct Touched {
  std::vector<Bytes> reads, writes;

  bool conflicts(const Touched& other) const {
    return overlap(writes, other.reads) || overlap(writes, other.writes) ||
           overlap(reads, other.writes);
  }
};

Touched touched_by(const LoweredGraph& graph, const MemoryPlan& plan, const LoweredNode& node) {
  Touched touched;
  const auto add = [&](TensorId id, std::vector<Bytes>& to) {
    if (id == kNoTensor || graph.tensor(id).role == Role::INPUT) return;
    const std::int64_t offset = plan.offsets.at(std::size_t(id));
    if (offset >= 0 && graph.tensor(id).bytes > 0)
      to.push_back({offset, offset + graph.tensor(id).bytes});
  };
  for (const TensorId id : node.inputs) add(id, touched.reads);
  for (const TensorId id : node.outputs) add(id, touched.writes);
  for (const int state : node.state_writes) add(node.inputs[std::size_t(state)], touched.writes);
  add(node.workspace, touched.writes);
  return touched;
}

using Set = std::vector<bool>;

void unite(Set& into, const Set& other) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    if (other[i]) into[i] = true;
  }
}

}  // namespace

std::vector<std::vector<int>> edges_to_next_run(const LoweredGraph& graph, const MemoryPlan& plan) {
  const std::size_t count = graph.nodes.size();
  std::vector<Touched> touched;
  for (const LoweredNode& node : graph.nodes) touched.push_back(touched_by(graph, plan, node));
  // Nodes of one run that have ended when node i has: itself and all before it.
  std::vector<Set> done(count, Set(count, false));
  for (std::size_t i = 0; i < count; ++i) {
    done[i][i] = true;
    for (const int dep : graph.nodes[i].deps) unite(done[i], done[std::size_t(dep)]);
  }
  std::vector<std::vector<int>> edges(count);
  std::vector<Set> waited(count, Set(count, false));  // of the first run, by node of the second
  for (std::size_t i = 0; i < count; ++i) {
    for (const int dep : graph.nodes[i].deps) unite(waited[i], waited[std::size_t(dep)]);
    for (std::size_t j = count; j-- > 0;) {  // a later node brings the earlier ones with it
      if (waited[i][j] || !touched[i].conflicts(touched[j])) continue;
      edges[i].push_back(int(j));
      unite(waited[i], done[j]);
    }
  }
  return edges;
}

}  // namespace tr
