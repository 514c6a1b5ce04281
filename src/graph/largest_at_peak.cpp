// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "core/format.h"
#include "core/human.h"
#include "graph/memory_plan.h"

namespace tr {
namespace {

bool live(const Placement& p, int step) { return p.first_use <= step && step <= p.last_use; }

/// Bytes of the range that tensors live at `step` cover; in-place pairs count once.
std::int64_t covered_bytes(const MemoryPlan& plan, int step) {
  std::int64_t covered = 0, end = 0;
  for (const Placement& p : plan.placements) {  // by offset
    if (!live(p, step)) continue;
    covered += std::max<std::int64_t>(0, p.offset + p.bytes - std::max(p.offset, end));
    end = std::max(end, p.offset + p.bytes);
  }
  return covered;
}

}  // namespace

int peak_node(const MemoryPlan& plan) {
  int last = -1, peak = -1;
  for (const Placement& p : plan.placements) last = std::max(last, p.last_use);
  std::int64_t most = 0;
  for (int step = 0; step <= last; ++step) {
    const std::int64_t covered = covered_bytes(plan, step);
    if (covered > most) {
      most = covered;
      peak = step;
    }
  }
  return peak;
}

std::vector<Placement> live_at_peak(const LoweredGraph& graph, const MemoryPlan& plan, int count) {
  const int step = peak_node(plan);
  std::vector<Placement> found;
  for (const Placement& p : plan.placements) {
    if (live(p, step)) found.push_back(p);
  }
  std::sort(found.begin(), found.end(), [&](const Placement& a, const Placement& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return graph.tensor(a.tensor).name < graph.tensor(b.tensor).name;
  });
  if (count >= 0 && found.size() > std::size_t(count)) found.resize(std::size_t(count));
  return found;
}

std::vector<std::string> largest_at_peak(const LoweredGraph& graph, const MemoryPlan& plan,
                                         int count) {
  std::vector<std::string> lines;
  for (const Placement& p : live_at_peak(graph, plan, count)) {
    const LoweredTensor& t = graph.tensor(p.tensor);
    lines.push_back(fmt::format("{:>10}  {}  {}  live {}..{}", format_bytes(t.bytes), t.type,
                                t.name, p.first_use, p.last_use));
  }
  return lines;
}

}  // namespace tr
