// SPDX-License-Identifier: Apache-2.0
#include "graph/aliases.h"

#include <algorithm>
#include <array>

namespace tr {
namespace {

bool same_bucket(const LoweredTensor& a, const LoweredTensor& b) {
  return a.bucket == -1 || b.bucket == -1 || a.bucket == b.bucket;
}

}  // namespace

std::vector<Access> accesses_of(const LoweredGraph& graph, const LoweredNode& node) {
  std::vector<Access> accesses;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoTensor) continue;
    const bool writes = std::find(node.state_writes.begin(), node.state_writes.end(), int(i)) !=
                        node.state_writes.end();
    accesses.push_back({node.inputs[i], writes});
  }
  const std::size_t num_inputs = accesses.size();
  for (const TensorId out : node.outputs) {
    if (out == kNoTensor) continue;
    const bool is_view = graph.tensor(out).view_of != kNoTensor;
    const bool relabels =
        is_view &&
        std::any_of(accesses.begin(), accesses.begin() + long(num_inputs), [&](const Access& in) {
          return owner_of(graph, in.tensor) == owner_of(graph, out);
        });
    accesses.push_back({out, !relabels});
  }
  if (node.workspace != kNoTensor) accesses.push_back({node.workspace, true});
  return accesses;
}

Aliases::Aliases(const LoweredGraph& graph) : graph_(graph), group_(graph.tensors.size(), -1) {
  std::array<bool, kNumRoles> has_range{};
  for (const LoweredTensor& t : graph.tensors) {
    if (t.range_role >= 0) has_range.at(std::size_t(t.range_role)) = true;
  }
  std::array<int, kNumRoles> role_group;
  role_group.fill(-1);
  for (TensorId id = 0; id < TensorId(graph.tensors.size()); ++id) {
    const TensorId owner = owner_of(graph, id);
    const LoweredTensor& t = graph.tensor(owner);
    const std::size_t role = t.range_role >= 0 ? std::size_t(t.range_role) : std::size_t(t.role);
    int& group = has_range.at(role) ? role_group.at(role) : group_.at(std::size_t(owner));
    if (group == -1) group = num_groups_++;
    group_[std::size_t(id)] = group;
  }
}

bool Aliases::overlap(TensorId a, TensorId b) const {
  if (group(a) != group(b)) return false;
  const TensorId owner_a = owner_of(graph_, a), owner_b = owner_of(graph_, b);
  if (owner_a != owner_b) {
    const LoweredTensor &x = graph_.tensor(owner_a), &y = graph_.tensor(owner_b);
    return (x.range_role >= 0 || y.range_role >= 0) && same_bucket(x, y);
  }
  const LoweredTensor &x = graph_.tensor(a), &y = graph_.tensor(b);
  if (x.bytes == 0 || y.bytes == 0) return a == b;
  return x.view_offset < y.view_offset + y.bytes && y.view_offset < x.view_offset + x.bytes;
}

bool Aliases::covers(TensorId outer, TensorId inner) const {
  if (group(outer) != group(inner)) return false;
  const TensorId owner_outer = owner_of(graph_, outer), owner_inner = owner_of(graph_, inner);
  const LoweredTensor &x = graph_.tensor(outer), &y = graph_.tensor(inner);
  if (owner_outer == owner_inner) {
    return x.view_offset <= y.view_offset && y.view_offset + y.bytes <= x.view_offset + x.bytes;
  }
  const LoweredTensor& owner_y = graph_.tensor(owner_inner);
  return x.view_of == kNoTensor && x.range_role >= 0 &&
         (x.bucket == -1 || x.bucket == owner_y.bucket);
}

}  // namespace tr
