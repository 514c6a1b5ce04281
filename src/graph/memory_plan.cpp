// SPDX-License-Identifier: Apache-2.0
#include "graph/memory_plan.h"

#include <algorithm>
#include <map>

#include "core/check.h"
#include "core/human.h"
#include "graph/aliases.h"
#include "graph/placement.h"
#include "graph/plan_report.h"
#include "graph/reachability.h"
#include "graph/transients.h"

namespace tr {
namespace {

/// A plan that relies on edges up to `distance`, before the edges are added.
struct Candidate {
  int distance = UsableOrder::kNoEdges;
  std::vector<PlaceGroup> groups;
  PlacementResult placement;
};

/// What every candidate is made from.
struct Problem {
  const LoweredGraph& graph;
  const std::vector<Transient>& transients;
  const Reachability& closure;
  const PlanOptions& options;

  Candidate solve(int distance, int rounds) const {
    const UsableOrder order(closure, distance);
    const bool in_place = options.in_place && options.reuse;
    Candidate candidate{distance, form_groups(graph, transients, order, in_place), {}};
    const Conflicts conflicts(transients, order, options.reuse);
    candidate.placement = place(transients, candidate.groups, conflicts, rounds);
    return candidate;
  }
};

bool is_total_order(const LoweredGraph& graph, const Reachability& closure) {
  for (int n = 1; n < int(graph.nodes.size()); ++n) {
    if (!closure.ordered(n - 1, n)) return false;
  }
  return true;
}

/// Rounds of improvement: bounded by work, not by time, so that the plan is always the same.
int rounds_for(std::size_t num_transients) {
  const double work = double(num_transients) * double(num_transients) + 1;
  return int(std::clamp(3e7 / work, 8.0, 400.0));
}

/// The fewest further edges that come within 2 % of the best peak.
Candidate choose(const Problem& problem) {
  const PlanOptions& options = problem.options;
  const int rounds = options.reuse ? rounds_for(problem.transients.size()) : 0;
  // One stream: the order of the nodes is all there is.
  if (is_total_order(problem.graph, problem.closure)) return problem.solve(1, rounds);
  if (!options.reuse || !options.add_edges) return problem.solve(UsableOrder::kNoEdges, rounds);
  std::vector<Candidate> candidates;
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (const int distance : {UsableOrder::kNoEdges, 64, 16, 4, 1}) {
    candidates.push_back(problem.solve(distance, rounds / 8));
    best = std::min(best, candidates.back().placement.peak);
  }
  const auto close = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) {
    return double(c.placement.peak) <= 1.02 * double(best);
  });
  Candidate refined = problem.solve(close->distance, rounds / 2);
  return refined.placement.peak < close->placement.peak ? refined : *close;
}

/// The edges that a placement relies on and the graph lacks.
class EdgeAdder {
 public:
  EdgeAdder(LoweredGraph& graph, const std::vector<Transient>& transients,
            const Reachability& closure, const Candidate& plan)
      : graph_(graph),
        transients_(transients),
        closure_(closure),
        plan_(plan),
        group_(transients.size(), -1),
        added_(graph.nodes.size()) {
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      for (const auto& m : plan.groups[g].members) group_[std::size_t(m.transient)] = int(g);
    }
  }

  void run() {
    const UsableOrder order(closure_, plan_.distance);
    for (std::size_t a = 0; a < transients_.size(); ++a) {
      for (std::size_t b = 0; b < transients_.size(); ++b) {
        if (a == b || !overlap(a, b)) continue;
        if (order.before(transients_[a], transients_[b])) {
          for (const int user : transients_[a].users) {
            for (const int writer : transients_[b].writers) require(user, writer);
          }
        } else if (group_[a] == group_[b] && transients_[a].first() < transients_[b].first()) {
          // b is written in the place of a: every other user of a comes first.
          for (const int user : transients_[a].users) require(user, transients_[b].first());
        }
      }
    }
    insert();
  }

 private:
  bool overlap(std::size_t a, std::size_t b) const {
    const auto& at = plan_.placement.offsets;
    return at[a] < at[b] + transients_[b].bytes && at[b] < at[a] + transients_[a].bytes;
  }

  void require(int before, int after) {
    if (before != after && !closure_.ordered(before, after))
      added_[std::size_t(after)].push_back(before);
  }

  void insert() {
    const bool any =
        std::any_of(added_.begin(), added_.end(), [](const auto& a) { return !a.empty(); });
    if (!any) return;
    Reachability closure(graph_.nodes.size());
    std::map<int, int> last_of_stream;
    for (int n = 0; n < int(graph_.nodes.size()); ++n) {
      LoweredNode& node = graph_.nodes[std::size_t(n)];
      const auto former = last_of_stream.find(node.stream);
      std::vector<int> deps = node.deps;
      deps.insert(deps.end(), added_[std::size_t(n)].begin(), added_[std::size_t(n)].end());
      node.deps = closure.without_redundant(std::move(deps),
                                            former == last_of_stream.end() ? -1 : former->second);
      closure.set_deps(n, node.deps);
      last_of_stream[node.stream] = n;
    }
  }

  LoweredGraph& graph_;
  const std::vector<Transient>& transients_;
  const Reachability& closure_;
  const Candidate& plan_;
  std::vector<int> group_;
  std::vector<std::vector<int>> added_;  // by later node
};

void refuse_if_over_budget(const LoweredGraph& graph, const MemoryPlan& plan,
                           const PlanOptions& options) {
  const std::int64_t needed = plan.persistent_bytes + plan.transient_bytes;
  if (needed <= options.budget_bytes) return;
  std::string needs = format_bytes(needed), budget = format_bytes(options.budget_bytes);
  if (needs == budget) {
    needs = fmt::format("{} bytes", needed);
    budget = fmt::format("{} bytes", options.budget_bytes);
  }
  const int step = peak_node(plan);
  const std::string name = step < 0 ? "" : node_name(graph.nodes[std::size_t(step)]);
  std::string message = fmt::format(
      "compile: the plan needs {}, the budget is {}. Largest tensors at the peak (step {} of {}, "
      "\"{}\"):",
      needs, budget, step, graph.nodes.size(), name);
  for (const std::string& line : largest_at_peak(graph, plan)) message += "\n  " + line;
  message +=
      fmt::format("\n  and {} that every step keeps (weights, gradients, optimizer state, inputs)",
                  format_bytes(plan.persistent_bytes));
  throw_as<OutOfMemory>("{}", message);
}

}  // namespace

MemoryPlan plan_transients(LoweredGraph& graph, std::int64_t base, const PlanOptions& options) {
  TR_ASSERT(base >= 0 && base % kAlignment == 0);
  const std::vector<Transient> transients = collect_transients(graph);
  const Reachability closure(graph);
  const Candidate chosen = choose({graph, transients, closure, options});
  EdgeAdder(graph, transients, closure, chosen).run();

  MemoryPlan plan;
  plan.persistent_bytes = base;
  plan.transient_bytes = chosen.placement.peak;
  plan.offsets.assign(graph.tensors.size(), -1);
  for (std::size_t t = 0; t < transients.size(); ++t) {
    const std::int64_t offset = base + chosen.placement.offsets[t];
    const Transient& transient = transients[t];
    plan.offsets[std::size_t(transient.owner)] = offset;
    plan.placements.push_back(
        {transient.owner, offset, transient.bytes, transient.first(), transient.last()});
  }
  for (TensorId id = 0; id < TensorId(graph.tensors.size()); ++id) {
    const LoweredTensor& t = graph.tensor(id);
    if (t.view_of == kNoTensor || is_persistent(t.role)) continue;
    const std::int64_t owner = plan.offsets[std::size_t(t.view_of)];
    if (owner >= 0) plan.offsets[std::size_t(id)] = owner + t.view_offset;
  }
  std::stable_sort(plan.placements.begin(), plan.placements.end(),
                   [](const Placement& a, const Placement& b) { return a.offset < b.offset; });
  refuse_if_over_budget(graph, plan, options);
  return plan;
}

}  // namespace tr
