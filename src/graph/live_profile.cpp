// SPDX-License-Identifier: Apache-2.0
#include "graph/live_profile.h"

#include <algorithm>

#include "graph/aliases.h"
#include "graph/memory_plan.h"

namespace tr {
namespace {

constexpr std::int64_t aligned(std::int64_t bytes) {
  return (std::max<std::int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

void add_once(std::vector<int>& to, int value) {
  if (std::find(to.begin(), to.end(), value) == to.end()) to.push_back(value);
}

}  // namespace

LiveProfile::LiveProfile(const LoweredGraph& graph, int turn)
    : turn_(turn), bytes_(graph.tensors.size(), 0), writer_(graph.tensors.size(), -1) {
  for (TensorId id = 0; id < TensorId(graph.tensors.size()); ++id) {
    const LoweredTensor& t = graph.tensor(id);
    if (!is_persistent(t.role) && t.view_of == kNoTensor)
      bytes_[std::size_t(id)] = aligned(t.bytes);
  }
  for (int n = 0; n < int(graph.nodes.size()); ++n) {
    const LoweredNode& node = graph.nodes[std::size_t(n)];
    Item item;
    for (const TensorId id : node.inputs) {
      if (id == kNoTensor) continue;
      const TensorId owner = owner_of(graph, id);
      if (bytes_[std::size_t(owner)] > 0) add_once(item.reads, owner);
    }
    for (const TensorId id : node.outputs) {
      const TensorId owner = owner_of(graph, id);
      if (bytes_[std::size_t(owner)] > 0) add_once(item.writes, owner);
      if (owner == id) writer_[std::size_t(owner)] = n;
    }
    for (const auto& [out, in] : node.in_place) {
      if (node.inputs[std::size_t(in)] == kNoTensor) continue;
      item.in_place.emplace_back(owner_of(graph, node.outputs[std::size_t(out)]),
                                 owner_of(graph, node.inputs[std::size_t(in)]));
    }
    if (node.workspace != kNoTensor) item.workspace = aligned(graph.tensor(node.workspace).bytes);
    items_.push_back(std::move(item));
  }
}

/// The steps of a graph in which some nodes run again.
class LiveProfile::Order {
 public:
  Order(const LiveProfile& profile, const std::vector<bool>& again)
      : profile_(profile), again_(again), made_(again.size(), false) {
    for (int n = 0; n < int(profile.items_.size()); ++n) {
      if (n >= profile.turn_) make_inputs_of(n);
      steps_.push_back({n, false});
    }
  }
  const std::vector<Step>& steps() const { return steps_; }

  bool is_remade(int owner) const {
    const int writer = profile_.writer_[std::size_t(owner)];
    return writer >= 0 && again_[std::size_t(writer)];
  }

 private:
  void make_inputs_of(int n) {
    for (const int owner : profile_.items_[std::size_t(n)].reads) {
      if (!is_remade(owner)) continue;
      const int writer = profile_.writer_[std::size_t(owner)];
      if (made_[std::size_t(writer)]) continue;
      made_[std::size_t(writer)] = true;
      make_inputs_of(writer);
      steps_.push_back({writer, true});
    }
  }

  const LiveProfile& profile_;
  const std::vector<bool>& again_;
  std::vector<bool> made_;
  std::vector<Step> steps_;
};

std::vector<std::int64_t> LiveProfile::bytes(const std::vector<bool>& again) const {
  const Order order(*this, again);
  const std::vector<Step>& steps = order.steps();
  const std::size_t owners = bytes_.size();
  // Copies of owner o are owner o + owners.
  std::vector<int> first(2 * owners, -1), last(2 * owners, -1);
  const auto read_as = [&](const Step& step, int owner) {
    const bool copy = (step.again || step.node >= turn_) && order.is_remade(owner);
    return std::size_t(owner) + (copy ? owners : 0);
  };
  const auto use = [&](std::size_t owner, int at) {
    if (first[owner] < 0) first[owner] = at;
    last[owner] = at;
  };
  for (int at = 0; at < int(steps.size()); ++at) {
    const Step& step = steps[std::size_t(at)];
    const Item& item = items_[std::size_t(step.node)];
    for (const int owner : item.reads) use(read_as(step, owner), at);
    for (const int owner : item.writes) use(std::size_t(owner) + (step.again ? owners : 0), at);
  }
  std::vector<std::int64_t> live(steps.size() + 1, 0);
  for (std::size_t owner = 0; owner < 2 * owners; ++owner) {
    if (first[owner] < 0) continue;
    live[std::size_t(first[owner])] += bytes_[owner % owners];
    live[std::size_t(last[owner]) + 1] -= bytes_[owner % owners];
  }
  live.pop_back();
  for (std::size_t at = 1; at < live.size(); ++at) live[at] += live[at - 1];
  for (int at = 0; at < int(steps.size()); ++at) {
    const Step& step = steps[std::size_t(at)];
    const Item& item = items_[std::size_t(step.node)];
    live[std::size_t(at)] += item.workspace;
    for (const auto& [out, in] : item.in_place) {
      const std::size_t to = std::size_t(out) + (step.again ? owners : 0), from = read_as(step, in);
      const bool dies = last[from] == at && first[to] == at && bytes_[std::size_t(in)] > 0;
      if (!dies || bytes_[std::size_t(out)] > bytes_[std::size_t(in)]) continue;
      live[std::size_t(at)] -= bytes_[std::size_t(out)];
      break;  // one pair of a node is enough for an estimate
    }
  }
  return live;
}

}  // namespace tr
