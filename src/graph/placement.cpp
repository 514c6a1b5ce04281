// SPDX-License-Identifier: Apache-2.0
#include "graph/placement.h"

#include <algorithm>
#include <numeric>

namespace tr {
namespace {

/// What the orders sort by.
struct GroupFacts {
  std::int64_t bytes = 0;  // extent
  int first = 0;
  int last = 0;
  std::int64_t span() const { return last - first + 1; }
};

class Placer {
 public:
  Placer(const std::vector<Transient>& transients, const std::vector<PlaceGroup>& groups,
         const Conflicts& conflicts)
      : transients_(transients), groups_(groups), conflicts_(conflicts) {
    for (const PlaceGroup& group : groups) {
      GroupFacts facts{0, transients[std::size_t(group.members.front().transient)].first(), 0};
      for (const auto& m : group.members) {
        const Transient& t = transients[std::size_t(m.transient)];
        facts.bytes = std::max(facts.bytes, m.relative + t.bytes);
        facts.first = std::min(facts.first, t.first());
        facts.last = std::max(facts.last, t.last());
      }
      facts_.push_back(facts);
    }
  }

  const std::vector<GroupFacts>& facts() const { return facts_; }

  /// Each group in turn at the lowest place that is free of what it conflicts with.
  PlacementResult place_in_order(const std::vector<int>& order) {
    PlacementResult result;
    result.offsets.assign(transients_.size(), 0);
    placed_.clear();
    for (const int g : order) {
      const PlaceGroup& group = groups_[std::size_t(g)];
      const std::int64_t base = lowest_free(group, facts_[std::size_t(g)].bytes);
      for (const auto& m : group.members) {
        const std::int64_t offset = base + m.relative;
        result.offsets[std::size_t(m.transient)] = offset;
        const Placed placed{offset, offset + transients_[std::size_t(m.transient)].bytes,
                            m.transient};
        const auto later =
            std::upper_bound(placed_.begin(), placed_.end(), placed,
                             [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
        placed_.insert(later, placed);
      }
      result.peak = std::max(result.peak, base + facts_[std::size_t(g)].bytes);
    }
    return result;
  }

 private:
  struct Placed {
    std::int64_t begin, end;
    int transient;
  };

  std::int64_t lowest_free(const PlaceGroup& group, std::int64_t extent) const {
    std::int64_t base = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (const Placed& other : placed_) {
        if (other.begin >= base + extent) break;  // so do all further ones
        if (other.end <= base) continue;
        for (const auto& m : group.members) {
          const std::int64_t begin = base + m.relative;
          const std::int64_t end = begin + transients_[std::size_t(m.transient)].bytes;
          if (other.begin >= end || other.end <= begin ||
              !conflicts_.conflict(m.transient, other.transient))
            continue;
          base = other.end - m.relative;
          moved = group.members.size() >
                  1;  // a shorter member may now meet what was passed: look again
        }
      }
    }
    return base;
  }

  const std::vector<Transient>& transients_;
  const std::vector<PlaceGroup>& groups_;
  const Conflicts& conflicts_;
  std::vector<GroupFacts> facts_;
  std::vector<Placed> placed_;  // by begin
};

template <typename Key>
std::vector<int> sorted_by(std::size_t count, Key key) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  return order;
}

std::vector<std::vector<int>> starting_orders(const std::vector<GroupFacts>& facts) {
  const std::size_t n = facts.size();
  const auto at = [&](int g) -> const GroupFacts& { return facts[std::size_t(g)]; };
  return {sorted_by(n, [&](int g) { return std::pair(-at(g).bytes, at(g).first); }),
          sorted_by(n, [&](int g) { return std::pair(-at(g).bytes * at(g).span(), at(g).first); }),
          sorted_by(n, [&](int g) { return std::pair(-at(g).span(), -at(g).bytes); }),
          sorted_by(n,
                    [&](int g) {
                      return std::pair<std::int64_t, std::int64_t>(at(g).first, -at(g).bytes);
                    }),
          sorted_by(n, [&](int g) {
            return std::pair<std::int64_t, std::int64_t>(-at(g).last, -at(g).bytes);
          })};
}

/// Most bytes of groups whose spans cover one step: no order of placing gets below it.
std::int64_t live_bytes(const std::vector<Transient>& transients,
                        const std::vector<PlaceGroup>& groups) {
  std::vector<std::int64_t> change;
  const auto add = [&](int step, std::int64_t bytes) {
    if (std::size_t(step) >= change.size()) change.resize(std::size_t(step) + 1, 0);
    change[std::size_t(step)] += bytes;
  };
  for (const PlaceGroup& group : groups) {
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      const Transient& t = transients[std::size_t(group.members[i].transient)];
      const bool next_takes_over = i + 1 < group.members.size();
      add(t.first(), t.bytes);
      add(next_takes_over ? t.last() : t.last() + 1, -t.bytes);
    }
  }
  std::int64_t live = 0, most = 0;
  for (const std::int64_t bytes : change) most = std::max(most, live += bytes);
  return most;
}

}  // namespace

Conflicts::Conflicts(const std::vector<Transient>& transients, const UsableOrder& order, bool reuse)
    : words_((transients.size() + 63) / 64), rows_(transients.size() * words_, 0) {
  const auto set = [&](std::size_t a, std::size_t b) {
    rows_[a * words_ + b / 64] |= std::uint64_t{1} << (b % 64);
  };
  for (std::size_t a = 0; a < transients.size(); ++a) {
    for (std::size_t b = a + 1; b < transients.size(); ++b) {
      if (reuse && (order.before(transients[a], transients[b]) ||
                    order.before(transients[b], transients[a]))) {
        continue;
      }
      set(a, b);
      set(b, a);
    }
  }
}

PlacementResult place(const std::vector<Transient>& transients,
                      const std::vector<PlaceGroup>& groups, const Conflicts& conflicts,
                      int rounds) {
  Placer placer(transients, groups, conflicts);
  const std::int64_t live = live_bytes(transients, groups);
  const std::int64_t target = live + live / 256;  // what is left above is not worth a search
  PlacementResult best;
  std::vector<int> order;
  for (std::vector<int>& start : starting_orders(placer.facts())) {
    if (!order.empty() && best.peak <= target) break;
    PlacementResult result = placer.place_in_order(start);
    if (!order.empty() && result.peak >= best.peak) continue;
    best = std::move(result);
    order = std::move(start);
  }
  PlacementResult current = best;
  for (int round = 0; round < rounds && best.peak > target; ++round) {
    // What reaches the top goes to the front.
    std::stable_partition(order.begin(), order.end(), [&](int g) {
      const auto& m = groups[std::size_t(g)].members.front();
      const std::int64_t base = current.offsets[std::size_t(m.transient)] - m.relative;
      return base + placer.facts()[std::size_t(g)].bytes >= current.peak;
    });
    current = placer.place_in_order(order);
    if (current.peak < best.peak) best = current;
  }
  return best;
}

}  // namespace tr
