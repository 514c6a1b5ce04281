// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "core/check.h"
#include "core/format.h"
#include "graph/aliases.h"
#include "graph/lowered_graph.h"
#include "graph/reachability.h"

namespace tr {
namespace {

class Verifier {
 public:
  Verifier(const LoweredGraph& graph, std::string_view pass) : graph_(graph), pass_(pass) {}

  void run() const {
    for (TensorId id = 0; id < TensorId(graph_.tensors.size()); ++id) check_tensor(id);
    for (int n = 0; n < int(graph_.nodes.size()); ++n) check_ids(n);
    check_written_before_read();
    const bool has_edges = std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                                       [](const LoweredNode& n) { return !n.deps.empty(); });
    if (!has_edges) return;  // derive_dependencies has not run yet
    for (int n = 0; n < int(graph_.nodes.size()); ++n) check_deps(n);
    check_stream_order();
    check_conflicts();
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(int n, fmt::format_string<Args...> format, Args&&... args) const {
    const LoweredNode& node = graph_.nodes[std::size_t(n)];
    const std::string where = node.where.empty() ? "" : fmt::format(", built at {}", node.where);
    throw_as<InternalError>("after {}: node {} \"{}.{}\"{}: {}", pass_, n, node.layer, node.op,
                            where, fmt::format(format, std::forward<Args>(args)...));
  }

  void check_tensor(TensorId id) const {
    const LoweredTensor& t = graph_.tensor(id);
    const auto bad = [&](const std::string& what) {
      throw_as<InternalError>("after {}: tensor {} \"{}\": {}", pass_, id, t.name, what);
    };
    if (t.bytes < 0) bad(fmt::format("has {} bytes", t.bytes));
    if (t.view_of == kNoTensor) return;
    if (t.view_of < 0 || t.view_of >= TensorId(graph_.tensors.size()) || t.view_of == id) {
      bad(fmt::format("is a view of tensor {}, which does not exist", t.view_of));
    }
    const LoweredTensor& owner = graph_.tensor(t.view_of);
    if (owner.view_of != kNoTensor) bad(fmt::format("is a view of the view \"{}\"", owner.name));
    if (t.view_offset < 0 || t.view_offset + t.bytes > owner.bytes) {
      bad(fmt::format("is a view of bytes [{}, {}) of \"{}\", which has {}", t.view_offset,
                      t.view_offset + t.bytes, owner.name, owner.bytes));
    }
    if (is_persistent(t.role) != is_persistent(owner.role)) {
      bad(fmt::format("has role {}, its owner \"{}\" has {}", name_of(t.role), owner.name,
                      name_of(owner.role)));
    }
  }

  void check_ids(int n) const {
    const LoweredNode& node = graph_.nodes[std::size_t(n)];
    const auto check_id = [&](TensorId id, const char* what) {
      if (id < kNoTensor || id >= TensorId(graph_.tensors.size())) {
        fail(n, "{} is tensor {}, the graph has {}", what, id, graph_.tensors.size());
      }
    };
    for (const TensorId id : node.inputs) check_id(id, "an input");
    for (const TensorId id : node.outputs) check_id(id, "an output");
    check_id(node.workspace, "the workspace");
    for (const int i : node.state_writes) {
      if (i < 0 || i >= int(node.inputs.size())) {
        fail(n, "writes input {}, it has {} inputs", i, node.inputs.size());
      }
    }
    for (const auto& [out, in] : node.in_place) {
      if (out < 0 || out >= int(node.outputs.size()) || in < 0 || in >= int(node.inputs.size())) {
        fail(n, "in-place pair ({}, {}) of {} outputs and {} inputs", out, in, node.outputs.size(),
             node.inputs.size());
      }
    }
  }

  void check_written_before_read() const {
    std::map<TensorId, int> writer;  // of exactly this tensor
    std::set<TensorId> written_owners;
    for (int n = 0; n < int(graph_.nodes.size()); ++n) {
      const LoweredNode& node = graph_.nodes[std::size_t(n)];
      for (const TensorId in : node.inputs) {
        if (in == kNoTensor || is_persistent(graph_.tensor(in).role)) continue;
        if (!written_owners.contains(owner_of(graph_, in))) {
          fail(n, "reads \"{}\" before any node writes it", graph_.tensor(in).name);
        }
      }
      for (const TensorId out : node.outputs) {
        if (out == kNoTensor) continue;
        written_owners.insert(owner_of(graph_, out));
        if (is_persistent(graph_.tensor(out).role)) continue;
        const auto [former, first] = writer.emplace(out, n);
        if (!first)
          fail(n, "writes \"{}\", which node {} wrote", graph_.tensor(out).name, former->second);
      }
    }
  }

  void check_deps(int n) const {
    const LoweredNode& node = graph_.nodes[std::size_t(n)];
    for (std::size_t i = 0; i < node.deps.size(); ++i) {
      if (node.deps[i] < 0 || node.deps[i] >= n) {
        fail(n, "comes after node {}, which is not before it in the order", node.deps[i]);
      }
      if (i > 0 && node.deps[i - 1] >= node.deps[i]) fail(n, "its edges are not sorted");
    }
  }

  void check_stream_order() const {
    std::map<int, int> last;
    for (int n = 0; n < int(graph_.nodes.size()); ++n) {
      const LoweredNode& node = graph_.nodes[std::size_t(n)];
      const auto former = last.find(node.stream);
      if (former != last.end() &&
          !std::binary_search(node.deps.begin(), node.deps.end(), former->second)) {
        fail(n, "lacks the edge from node {}, the former one of stream {}", former->second,
             node.stream);
      }
      last[node.stream] = n;
    }
  }

  void check_conflicts() const {
    const Aliases aliases(graph_);
    const Reachability closure(graph_);
    std::vector<std::vector<std::pair<int, Access>>> past(std::size_t(aliases.num_groups()));
    for (int n = 0; n < int(graph_.nodes.size()); ++n) {
      for (const Access& now : accesses_of(graph_, graph_.nodes[std::size_t(n)])) {
        auto& group = past[std::size_t(aliases.group(now.tensor))];
        for (const auto& [before, access] : group) {
          if (before == n || !(now.writes || access.writes) || closure.ordered(before, n)) continue;
          if (!aliases.overlap(now.tensor, access.tensor)) continue;
          fail(n, "{} \"{}\" and is not ordered after node {}, which {} \"{}\"",
               now.writes ? "writes" : "reads", graph_.tensor(now.tensor).name, before,
               access.writes ? "writes" : "reads", graph_.tensor(access.tensor).name);
        }
        group.emplace_back(n, now);
      }
    }
  }

  const LoweredGraph& graph_;
  std::string_view pass_;
};

}  // namespace

void verify(const LoweredGraph& graph, std::string_view after_pass) {
  Verifier(graph, after_pass).run();
}

}  // namespace tr
