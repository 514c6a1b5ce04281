// SPDX-License-Identifier: Apache-2.0
#include "graph/lowered_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/format.h"
#include "graph/aliases.h"
#include "graph/reachability.h"

namespace tr {
namespace {

struct PastAccess {
  int node;
  Access access;
};

std::string tensor_label(const LoweredGraph& graph, TensorId id) {
  return id == kNoTensor ? "-" : graph.tensor(id).name;
}

std::string tensor_line(const LoweredGraph& graph, TensorId id) {
  const LoweredTensor& t = graph.tensor(id);
  std::string line = fmt::format("  %{:<4} {:<32} {:<12} {} ({} bytes)", id, t.name,
                                 name_of(t.role), t.type, t.bytes);
  if (t.view_of != kNoTensor) {
    line += fmt::format(" view of {} at {}", graph.tensor(t.view_of).name, t.view_offset);
  }
  if (t.range_role >= 0) line += fmt::format(" range of {}", name_of(Role(t.range_role)));
  if (t.bucket >= 0) line += fmt::format(" bucket {}", t.bucket);
  return line + "\n";
}

std::string node_line(const LoweredGraph& graph, std::size_t index) {
  const LoweredNode& n = graph.nodes[index];
  std::vector<std::string> inputs, outputs;
  for (const TensorId id : n.inputs) inputs.push_back(tensor_label(graph, id));
  for (const TensorId id : n.outputs) outputs.push_back(tensor_label(graph, id));
  std::string line =
      fmt::format("  {:>4} s{} {:<10} {}.{}{}({}) -> ({})", index, n.stream, name_of(n.label),
                  n.layer, n.op, n.attrs.values().empty() ? "" : n.attrs.text(),
                  fmt::join(inputs, ", "), fmt::join(outputs, ", "));
  if (!n.kernel.empty()) line += fmt::format(" kernel {}", n.kernel);
  if (n.workspace != kNoTensor)
    line += fmt::format(" workspace {}", graph.tensor(n.workspace).bytes);
  if (!n.state_writes.empty())
    line += fmt::format(" writes inputs [{}]", fmt::join(n.state_writes, ", "));
  return line + fmt::format(" after [{}]\n", fmt::join(n.deps, ", "));
}

}  // namespace

std::string LoweredGraph::text() const {
  std::string text = fmt::format("{} tensors\n", tensors.size());
  for (std::size_t id = 0; id < tensors.size(); ++id) text += tensor_line(*this, TensorId(id));
  text += fmt::format("{} nodes\n", nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) text += node_line(*this, n);
  return text;
}

void derive_dependencies(LoweredGraph& graph) {
  const Aliases aliases(graph);
  Reachability closure(graph.nodes.size());
  std::vector<std::vector<PastAccess>> history(std::size_t(aliases.num_groups()));
  std::map<int, int> last_of_stream;

  for (int n = 0; n < int(graph.nodes.size()); ++n) {
    LoweredNode& node = graph.nodes[std::size_t(n)];
    const std::vector<Access> accesses = accesses_of(graph, node);
    std::vector<int> deps;
    for (const Access& now : accesses) {
      for (const PastAccess& past : history[std::size_t(aliases.group(now.tensor))]) {
        if ((now.writes || past.access.writes) && aliases.overlap(now.tensor, past.access.tensor)) {
          deps.push_back(past.node);
        }
      }
    }
    for (const Access& now : accesses) {
      auto& past = history[std::size_t(aliases.group(now.tensor))];
      // Whoever conflicts with a covered access conflicts with the write that covers it, too.
      if (now.writes) {
        std::erase_if(past, [&](const PastAccess& p) {
          return p.node != n && aliases.covers(now.tensor, p.access.tensor);
        });
      }
      past.push_back({n, now});
    }
    const auto stream = last_of_stream.find(node.stream);
    const int former = stream == last_of_stream.end() ? -1 : stream->second;
    if (former >= 0) deps.push_back(former);
    node.deps = closure.without_redundant(std::move(deps), former);
    closure.set_deps(n, node.deps);
    last_of_stream[node.stream] = n;
  }
}

}  // namespace tr
