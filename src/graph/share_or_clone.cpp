// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/check.h"
#include "core/format.h"
#include "graph/compiler.h"

namespace tr {
namespace {

bool same_tensor(const LoweredTensor& a, const LoweredTensor& b) {
  const auto key = [](const LoweredTensor& t) {
    return std::tie(t.name, t.role, t.bytes, t.view_of, t.view_offset, t.param, t.range_role,
                    t.bucket);
  };
  return key(a) == key(b) && a.type == b.type;
}

bool same_node(const LoweredNode& a, const LoweredNode& b) {
  const auto key = [](const LoweredNode& n) {
    return std::tie(n.op, n.attrs, n.inputs, n.outputs, n.workspace, n.kernel, n.label, n.layer,
                    n.stream, n.deps, n.in_place, n.state_writes);
  };
  return key(a) == key(b);
}

bool same_graph(const LoweredGraph& a, const LoweredGraph& b) {
  return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same_node) &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    same_tensor);
}

}  // namespace

std::vector<int> share_or_clone(std::span<const LoweredGraph> graphs) {
  std::vector<int> first_equal;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    int found = int(i);
    for (std::size_t j = 0; j < i && found == int(i); ++j) {
      if (first_equal[j] == int(j) && same_graph(graphs[j], graphs[i])) found = int(j);
    }
    first_equal.push_back(found);
  }
  return first_equal;
}

std::map<std::string, std::int64_t> compute_max_slot_bytes(std::span<const LoweredGraph> graphs) {
  std::map<std::string, std::int64_t> slots;
  for (const LoweredGraph& graph : graphs) {
    for (const LoweredTensor& t : graph.tensors) {
      if (!is_persistent(t.role) || t.view_of != kNoTensor) continue;
      std::int64_t& bytes = slots[t.name];
      bytes = std::max(bytes, t.bytes);
    }
  }
  return slots;
}

}  // namespace tr
