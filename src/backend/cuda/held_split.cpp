// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/held_split.h"

#include <algorithm>

#include "backend/cuda/arena.h"
#include "core/assert.h"
#include "core/check.h"
#include "graph/step_overlap.h"

namespace tr::cuda {

HeldSplit::HeldSplit(const ResidentSplit& split, std::byte* arena, std::int64_t zone_bytes,
                     cudaStream_t stream)
    : split_(split), arena_(arena), zone_bytes_(zone_bytes), stream_(stream) {
  for (const ResidentField& field : split.fields) fields_.push_back(field.name);
  constexpr auto kRowBytes = std::int64_t(kRing * sizeof(FeedRow));
  ring_ = make_device_arena(kRowBytes + std::int64_t(sizeof(std::int64_t)));
  rows_ = reinterpret_cast<FeedRow*>(ring_->base());
  base_ = reinterpret_cast<std::int64_t*>(ring_->base() + kRowBytes);
  static_assert(kRowBytes % sizeof(std::int64_t) == 0);
  TR_CUDA(cudaDeviceSynchronize());  // the counter is zero from here on
}

/// Points the step's inputs to a zone; returns it as the feed's target.
FeedTarget HeldSplit::bind(const StepSource& step, int zone) const {
  FeedTarget target;
  for (const Input& input : *step.inputs) {
    std::byte* place = arena_ + input.place + zone * zone_bytes_;
    step.prepared->bind_input(input.field, place);
    const auto field = std::find(fields_.begin(), fields_.end(), input.field);
    TR_CHECK(field != fields_.end(), "the data on the device have no field \"{}\"", input.field);
    target.fields[field - fields_.begin()] = place;
  }
  return target;
}

/// Steps one behind the other. Each but the first has a feed in the graph, beside its predecessor;
/// the first batch may be there already, and then the last step may feed the first of the next
/// launch. That row may not be there yet: what comes of it is fed again (run()).
GraphExec HeldSplit::captured(const StepSource& step, int count, Feeds feeds) const {
  TR_ASSERT(feeds != Feeds::AHEAD || count % 2 == 0);  // the next launch begins in zone 0 too
  GraphCapture graph(stream_);
  const auto feed = [&](int k, const GraphCapture::Tail& after) {
    return graph.add(after, [&] {
      enqueue_feed(stream_, split_, rows_, base_, k, kRing, bind(step, k % 2), step.batch);
    });
  };
  const LoweredGraph& nodes = step.prepared->graph();
  const std::vector<std::vector<int>> edges = edges_to_next_run(nodes, *step.plan);
  const int num_feeds = feeds == Feeds::AHEAD ? count + 1 : count;
  GraphCapture::Tail fed, ended;           // ended: the step before the running one
  std::vector<GraphCapture::Tail> former;  // tails of the running step's predecessor, by node
  if (feeds == Feeds::OWN) fed = feed(0, {});
  for (int k = 0; k < count; ++k) {
    bind(step, k % 2);
    const auto after = [&](int node) {
      GraphCapture::Tail before =
          nodes.nodes[std::size_t(node)].deps.empty() ? fed : GraphCapture::Tail();
      if (former.empty()) return before;
      for (const int j : edges[std::size_t(node)]) {
        const GraphCapture::Tail& tail = former[std::size_t(j)];
        before.insert(before.end(), tail.begin(), tail.end());
      }
      return before;
    };
    const std::vector<GraphCapture::Tail> tails = graph.add(*step.prepared, after);
    if (k + 1 == num_feeds) break;
    // The zone of the next batch was read by the predecessor.
    GraphCapture::Tail free = fed;
    free.insert(free.end(), ended.begin(), ended.end());
    fed = feed(k + 1, free);
    former = tails;
    ended = GraphCapture::ends(nodes, tails);
  }
  graph.add(fed, [&] { enqueue_advance(stream_, base_, count); });
  bind(step, 0);
  return GraphExec(graph.instantiate());
}

void HeldSplit::capture(int variant, const StepSource& step, const StepProbe* probe) {
  Graphs graphs{.step = step, .one = {}, .many = {}, .two = {}, .last = {}};
  if (probe != nullptr) {
    graphs.one = capture_in_order(stream_, *step.prepared, *probe, frame_of(step));
  } else {
    graphs.one = captured(step, 1, Feeds::OWN);
    graphs.many = captured(step, kUnrolled, Feeds::AHEAD);
    graphs.two = captured(step, 2, Feeds::AHEAD);
    graphs.last = captured(step, 1, Feeds::LAST);
  }
  graphs_.insert_or_assign(variant, std::move(graphs));
}

StepFrame HeldSplit::frame_of(const StepSource& step) const {
  return {.feed =
              [this, step] {
                enqueue_feed(stream_, split_, rows_, base_, 0, kRing, bind(step, 0), step.batch);
              },
          .finish = [this] { enqueue_advance(stream_, base_, 1); }};
}

const HeldSplit::Graphs& HeldSplit::graphs_of(int variant) const {
  const auto found = graphs_.find(variant);
  TR_CHECK(found != graphs_.end(), "variant {} was not made ready for data on the device", variant);
  return found->second;
}

StepFrame HeldSplit::frame(int variant) const { return frame_of(graphs_of(variant).step); }

/// In stream order behind every launch that may still read the rows it replaces.
void HeldSplit::upload(std::span<const FeedRow> rows) {
  while (!rows.empty()) {
    const std::int64_t at = next_row_ % kRing;
    const std::size_t count = std::min(rows.size(), std::size_t(kRing - at));
    TR_CUDA(cudaMemcpyAsync(rows_ + at, rows.data(), count * sizeof(FeedRow),
                            cudaMemcpyHostToDevice, stream_));
    next_row_ += std::int64_t(count);
    rows = rows.subspan(count);
  }
}

void HeldSplit::run(int variant, std::span<const FeedRow> rows) {
  const Graphs& graphs = graphs_of(variant);
  while (!rows.empty()) {
    const std::span<const FeedRow> part = rows.first(std::min(rows.size(), std::size_t(kRing)));
    upload(part);
    const bool fed = graphs.last.handle != nullptr && part.size() > 1;
    if (fed) {
      const StepSource& step = graphs.step;
      enqueue_feed(stream_, split_, rows_, base_, 0, kRing, bind(step, 0), step.batch);
    }
    for (std::size_t left = part.size(); left > 0;) {
      const std::size_t count = !fed                             ? 1
                                : left >= std::size_t(kUnrolled) ? std::size_t(kUnrolled)
                                : left >= 2                      ? 2
                                                                 : 1;
      const GraphExec& exec = !fed                              ? graphs.one
                              : count == std::size_t(kUnrolled) ? graphs.many
                              : count == 2                      ? graphs.two
                                                                : graphs.last;
      TR_CUDA(cudaGraphLaunch(exec.handle, stream_));
      left -= count;
    }
    rows = rows.subspan(part.size());
  }
}

}  // namespace tr::cuda
