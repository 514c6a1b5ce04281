// SPDX-License-Identifier: Apache-2.0
// Which nodes run again. A candidate is a set of forward nodes: one that remakes a single kept
// tensor, or one that remakes all of a segment between two cuts of the forward pass. Candidates are
// taken one after another, by bytes x steps that they bring below the goal for the time that they
// cost, until the live bytes of every step are within it; for several numbers of segments, of which
// the cheapest wins.
#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "core/check.h"
#include "core/format.h"
#include "core/human.h"
#include "graph/aliases.h"
#include "graph/live_profile.h"
#include "graph/op_def.h"
#include "graph/passes/pass.h"
#include "graph/recompute.h"

namespace tr {
namespace {

using Marks = std::vector<bool>;  // by node

/// Operations that take as long as a byte of memory: 600 TFLOP/s and 4.5 TB/s of a large GPU.
constexpr double kFlopsPerByte = 128;

constexpr int kNumSegments[] = {0, 2, 3, 4, 6, 8, 12, 16, 24, 32};  // 0: single tensors only

/// Time of a node, as the bytes that memory moves meanwhile.
double time_of(const LoweredGraph& graph, const LoweredNode& node) {
  const OpDef* def = OpRegistry::instance().find(node.op);
  const std::vector<TensorType> in = types_of(graph, node.inputs),
                                out = types_of(graph, node.outputs);
  if (def != nullptr && def->cost) {
    const Cost cost = def->cost(node.attrs, in, out);
    return double(cost.flops) / kFlopsPerByte + double(cost.bytes);
  }
  double bytes = 0;
  for (const auto* types : {&in, &out}) {
    for (const TensorType& type : *types) bytes += double(bytes_of(type));
  }
  return bytes;
}

std::int64_t highest(const std::vector<std::int64_t>& live) {
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

/// Bytes above the goal, summed over the steps: what is left to do.
double excess(const std::vector<std::int64_t>& live, std::int64_t goal) {
  double sum = 0;
  for (const std::int64_t bytes : live) sum += double(std::max<std::int64_t>(0, bytes - goal));
  return sum;
}

/// What is known of the forward pass of a graph.
class Forward {
 public:
  explicit Forward(const LoweredGraph& graph)
      : graph_(graph),
        turn_(first_backward(graph)),
        may_(may_run_again(graph)),
        profile_(graph, turn_),
        writer_(graph.tensors.size(), -1),
        last_reader_(graph.tensors.size(), -1),
        kept_(graph.tensors.size(), false) {
    for (int n = 0; n < int(graph.nodes.size()); ++n) {
      const LoweredNode& node = graph.nodes[std::size_t(n)];
      time_.push_back(n < turn_ && may_[std::size_t(n)] ? time_of(graph, node) : 0);
      for (const TensorId id : node.outputs) writer_[std::size_t(id)] = n;
      for (const TensorId id : node.inputs) {
        if (id == kNoTensor) continue;
        const auto owner = std::size_t(owner_of(graph, id));
        if (n < turn_) last_reader_[owner] = n;
        if (n >= turn_) kept_[owner] = true;
      }
    }
  }

  int turn() const { return turn_; }
  const LiveProfile& profile() const { return profile_; }
  Marks none() const { return Marks(graph_.nodes.size(), false); }

  double time(const Marks& again) const {
    double sum = 0;
    for (std::size_t n = 0; n < again.size(); ++n) sum += again[n] ? time_[n] : 0;
    return sum;
  }

  /// Marks node n and those of its inputs' writers whose results are not kept anyway. Where one of
  /// these may not run again, its result is kept for this.
  void mark(int n, Marks& again) const {
    if (n < 0 || again[std::size_t(n)] || !may_[std::size_t(n)]) return;
    again[std::size_t(n)] = true;
    for (const TensorId id : graph_.nodes[std::size_t(n)].inputs) {
      if (id == kNoTensor) continue;
      const TensorId owner = owner_of(graph_, id);
      if (!is_persistent(graph_.tensor(owner).role) && !kept_[std::size_t(owner)])
        mark(writer_[std::size_t(owner)], again);
    }
  }

  /// For each kept tensor the nodes that remake it.
  std::vector<Marks> single_candidates() const {
    std::vector<Marks> all;
    for (int n = 0; n < turn_; ++n) {
      if (!keeps(n)) continue;
      Marks again = none();
      mark(n, again);
      all.push_back(std::move(again));
    }
    return all;
  }

  /// The forward pass in `count` segments of about the same kept bytes, cut where few bytes pass.
  std::vector<Marks> segment_candidates(int count) const {
    std::vector<Marks> all;
    if (count == 0) return all;
    const std::vector<int> cuts = find_cuts(count);
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      Marks again = none();
      for (int n = cuts[c]; n < cuts[c + 1]; ++n) {
        if (keeps(n) && !passes(n, cuts[c + 1])) mark(n, again);
      }
      // Marking follows inputs: what this segment was handed and what it hands on is kept.
      for (int n = 0; n < cuts[c + 1]; ++n) {
        if (n < cuts[c] || passes(n, cuts[c + 1])) again[std::size_t(n)] = false;
      }
      all.push_back(std::move(again));
    }
    return all;
  }

 private:
  bool keeps(int n) const {
    const auto& outputs = graph_.nodes[std::size_t(n)].outputs;
    return may_[std::size_t(n)] && std::any_of(outputs.begin(), outputs.end(), [&](TensorId id) {
             return kept_[std::size_t(id)] && !is_persistent(graph_.tensor(id).role);
           });
  }

  /// Something that node n makes is read by the forward pass at or behind the cut.
  bool passes(int n, int cut) const {
    const auto& outputs = graph_.nodes[std::size_t(n)].outputs;
    return std::any_of(outputs.begin(), outputs.end(), [&](TensorId id) {
      return last_reader_[std::size_t(id)] >= cut && graph_.tensor(id).bytes > kSmall;
    });
  }

  std::int64_t passing_bytes(int cut) const {
    std::int64_t bytes = 0;
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
      const LoweredTensor& t = graph_.tensors[id];
      const bool passes = t.view_of == kNoTensor && !is_persistent(t.role) && writer_[id] >= 0 &&
                          writer_[id] < cut && last_reader_[id] >= cut;
      if (passes) bytes += t.bytes;
    }
    return bytes;
  }

  /// Kept bytes made by the nodes before each node, and in all.
  std::vector<std::int64_t> kept_before() const {
    std::vector<std::int64_t> sums = {0};
    for (int n = 0; n < turn_; ++n) {
      std::int64_t bytes = 0;
      for (const TensorId id : graph_.nodes[std::size_t(n)].outputs) {
        const bool counts = kept_[std::size_t(id)] && !is_persistent(graph_.tensor(id).role);
        bytes += counts ? graph_.tensor(id).bytes : 0;
      }
      sums.push_back(sums.back() + bytes);
    }
    return sums;
  }

  std::vector<int> find_cuts(int count) const {
    const std::vector<std::int64_t> before = kept_before();
    std::vector<int> cuts = {0};
    for (int c = 1; c < count; ++c) {
      const double middle = double(before.back()) * c / count,
                   half = double(before.back()) / count / 2;
      int best = -1;
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (int n = cuts.back() + 1; n < turn_; ++n) {
        const double at = double(before[std::size_t(n)]);
        if (at < middle - half || at > middle + half) continue;
        const std::int64_t bytes = passing_bytes(n);
        if (bytes < least) best = n, least = bytes;
      }
      if (best >= 0) cuts.push_back(best);
    }
    cuts.push_back(turn_);
    return cuts;
  }

  static constexpr std::int64_t kSmall = 1
                                         << 16;  // statistics and the like: remade by their segment

  const LoweredGraph& graph_;
  int turn_;
  Marks may_;
  LiveProfile profile_;
  std::vector<int> writer_, last_reader_;  // by owner; the last reader within the forward pass
  Marks kept_;                             // by owner: the backward pass reads it
  std::vector<double> time_;
};

Marks united(const Marks& a, const Marks& b) {
  Marks both = a;
  for (std::size_t n = 0; n < b.size(); ++n) both[n] = both[n] || b[n];
  return both;
}

/// A set of nodes that run again, with what it takes.
struct Choice {
  Marks again;
  double time = std::numeric_limits<double>::infinity();
  std::int64_t highest = std::numeric_limits<std::int64_t>::max();
};

Choice choice_of(const Forward& forward, Marks again) {
  Choice choice{std::move(again), 0, 0};
  choice.time = forward.time(choice.again);
  choice.highest = highest(forward.profile().bytes(choice.again));
  return choice;
}

/// Takes candidates until the goal is met or none helps. A candidate's gain is measured anew only
/// when it comes up: gains mostly fall as others are taken.
class Greedy {
 public:
  Greedy(const Forward& forward, const std::vector<Marks>& candidates, std::int64_t goal)
      : forward_(forward), candidates_(candidates), goal_(goal), again_(forward.none()) {}

  Choice run() {
    left_ = excess(forward_.profile().bytes(again_), goal_);
    std::set<std::pair<double, int>> queue;  // minus the gain, then the candidate
    for (int c = 0; c < int(candidates_.size()); ++c) queue.emplace(-gain(c).rate, c);
    while (left_ > 0 && !queue.empty()) {
      const int c = queue.begin()->second;
      queue.erase(queue.begin());
      const Gain now = gain(c);
      if (now.rate <= 0) continue;
      if (!queue.empty() && -now.rate > queue.begin()->first) {
        queue.emplace(-now.rate, c);
        continue;
      }
      again_ = united(again_, candidates_[std::size_t(c)]);
      taken_.push_back(c);
      left_ = now.left;
    }
    if (left_ <= 0) drop_needless();
    return choice_of(forward_, again_);
  }

 private:
  /// Gives back candidates that later ones have made needless, the dearest first.
  void drop_needless() {
    const auto time = [&](int c) { return forward_.time(candidates_[std::size_t(c)]); };
    std::vector<int> dearest = taken_;
    std::stable_sort(dearest.begin(), dearest.end(),
                     [&](int a, int b) { return time(a) > time(b); });
    for (const int c : dearest) {
      Marks rest = forward_.none();
      for (const int other : taken_) {
        if (other != c) rest = united(rest, candidates_[std::size_t(other)]);
      }
      if (excess(forward_.profile().bytes(rest), goal_) > 0) continue;
      again_ = std::move(rest);
      std::erase(taken_, c);
    }
  }

  struct Gain {
    double rate = 0, left = 0;
  };

  Gain gain(int c) const {
    const Marks both = united(again_, candidates_[std::size_t(c)]);
    const double time = forward_.time(both) - forward_.time(again_);
    if (time <= 0) return {};
    const double left = excess(forward_.profile().bytes(both), goal_);
    return {(left_ - left) / time, left};
  }

  const Forward& forward_;
  const std::vector<Marks>& candidates_;
  std::int64_t goal_;
  Marks again_;
  std::vector<int> taken_;  // candidates
  double left_ = 0;
};

/// Finds choices for goals.
class Search {
 public:
  explicit Search(const LoweredGraph& graph) : forward_(graph) {
    const std::vector<Marks> singles = forward_.single_candidates();
    for (const int count : kNumSegments) {
      std::vector<Marks> candidates = forward_.segment_candidates(count);
      Marks all = forward_.none();
      for (const Marks& again : count == 0 ? singles : candidates) all = united(all, again);
      whole_.push_back(choice_of(forward_, std::move(all)));
      candidates.insert(candidates.end(), singles.begin(), singles.end());
      candidates_.push_back(std::move(candidates));
    }
  }

  /// The cheapest choice whose live bytes are within the goal; unset: none is known.
  std::optional<Choice> within(std::int64_t goal) const {
    Choice best;
    const auto offer = [&](const Choice& choice) {
      if (choice.highest <= goal && choice.time < best.time) best = choice;
    };
    for (const auto& candidates : candidates_) offer(Greedy(forward_, candidates, goal).run());
    for (const Choice& choice : whole_) offer(choice);
    if (best.again.empty()) return std::nullopt;
    return best;
  }

  /// The choice with the least live bytes, whatever its time.
  Choice smallest() const {
    const auto least = [](const Choice& a, const Choice& b) { return a.highest < b.highest; };
    Choice best = *std::min_element(whole_.begin(), whole_.end(), least);
    for (const double step : {0.93, 0.98}) {
      for (;;) {
        const auto next = within(std::int64_t(double(best.highest) * step));
        if (!next) break;
        best = *next;
      }
    }
    return best;
  }

 private:
  Forward forward_;
  std::vector<std::vector<Marks>> candidates_;  // by number of segments
  std::vector<Choice> whole_;                   // all of a number's segments
};

RecomputedPlan plan_of(const LoweredGraph& graph, std::int64_t base, const PlanOptions& options,
                       const Marks& again) {
  PlanOptions unlimited = options;
  unlimited.budget_bytes = PlanOptions{}.budget_bytes;
  RecomputedPlan result{with_recomputation(graph, again), {}};
  result.plan = plan_transients(result.graph, base, unlimited);
  return result;
}

std::int64_t peak_of(const RecomputedPlan& plan) {
  return plan.plan.persistent_bytes + plan.plan.transient_bytes;
}

}  // namespace

RecomputedPlan plan_with_recomputation(const LoweredGraph& graph, std::int64_t base,
                                       std::int64_t goal_bytes, const PlanOptions& options) {
  const RecomputedPlan as_it_is = plan_of(graph, base, options, Marks(graph.nodes.size(), false));
  if (peak_of(as_it_is) <= goal_bytes) return as_it_is;
  std::int64_t least = peak_of(as_it_is);
  if (first_backward(graph) < int(graph.nodes.size())) {
    const Search search(graph);
    // A plan needs somewhat more than its live bytes: the aim is lowered by what it was too large.
    constexpr int kRounds = 4;
    std::int64_t aim = goal_bytes - base;
    for (int round = 0; round < kRounds && aim > 0; ++round) {
      const auto choice = search.within(aim);
      if (!choice) break;
      RecomputedPlan plan = plan_of(graph, base, options, choice->again);
      if (peak_of(plan) <= goal_bytes) return plan;
      aim = std::min(aim, choice->highest) - (peak_of(plan) - goal_bytes);
    }
    RecomputedPlan smallest = plan_of(graph, base, options, search.smallest().again);
    if (peak_of(smallest) <= goal_bytes) return smallest;
    least = std::min(least, peak_of(smallest));
  }
  throw_as<OutOfMemory>(
      "compile: memory_budget is {} ({} bytes), the smallest that running nodes again was found to "
      "reach is {} ({} bytes), of which {} are kept by every step (weights, gradients, optimizer "
      "state, "
      "inputs)",
      format_bytes(goal_bytes), goal_bytes, format_bytes(least), least, format_bytes(base));
}

}  // namespace tr
