// SPDX-License-Identifier: Apache-2.0
#include "task/spans.h"

#include <algorithm>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "core/clock.h"
#include "graph/graph_export.h"

namespace tr {

Spans::Scope::Scope(Spans* spans, const char* name) : spans_(spans), name_(name) {
  if (spans_ == nullptr) return;
  if (spans_->ranges_.begin != nullptr) spans_->ranges_.begin(name_);
  begin_ns_ = now_ns();
}

Spans::Scope::~Scope() {
  if (spans_ == nullptr) return;
  if (spans_->ranges_.end != nullptr) spans_->ranges_.end();
  spans_->end(name_, begin_ns_);
}

void Spans::end(const char* name, std::int64_t begin_ns) {
  if (!kept_) return;
  if (host_.size() < kMost) {
    host_.push_back({name, begin_ns, now_ns()});
  } else {
    ++dropped_;
  }
}

namespace {

using Json = nlohmann::ordered_json;

constexpr int kHost = 1, kDevice = 2;  // processes of the trace
constexpr int kInputThread = 0;        // of the device; streams follow

class TraceEvents {
 public:
  explicit TraceEvents(std::int64_t zero_ns) : zero_ns_(zero_ns) {}

  void name(const char* what, int process, int thread, const std::string& text) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", process},
                       {"tid", thread},
                       {"args", {{"name", text}}}});
  }
  /// A complete event. Times in nanoseconds.
  void add(const Json& head, int process, int thread, double begin_ns, double duration_ns) {
    Json event = head;
    event["ph"] = "X";
    event["pid"] = process;
    event["tid"] = thread;
    event["ts"] = (begin_ns - double(zero_ns_)) / 1e3;
    event["dur"] = duration_ns / 1e3;
    events_.push_back(std::move(event));
  }
  Json take() { return std::move(events_); }

 private:
  std::int64_t zero_ns_;
  Json events_ = Json::array();
};

std::int64_t first_ns(const Spans& spans, std::span<const StepTiming> timings) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Spans::HostSpan& span : spans.host_spans()) first = std::min(first, span.begin_ns);
  for (const StepTiming& timing : timings) first = std::min(first, timing.begin_ns);
  return first;
}

Json node_head(const LoweredNode& node, int number, const std::string& variant) {
  const std::string name = node.layer.empty() ? node.op : node.op + " " + node.layer;
  return {{"name", name},
          {"cat", name_of(node.label)},
          {"args",
           {{"node", number},
            {"variant", variant},
            {"kernel", node.kernel},
            {"where", node.where.empty() ? "" : node.where.str()}}}};
}

}  // namespace

std::string chrome_trace(const Spans& spans, std::span<const StepTiming> timings,
                         const CompileResult& compiled, const std::string& device) {
  TraceEvents events(first_ns(spans, timings));
  events.name("process_name", kHost, 0, "host");
  events.name("thread_name", kHost, 0, "training");
  events.name("process_name", kDevice, 0, device);
  std::set<int> streams;
  for (const StepTiming& timing : timings) {
    const std::string& variant = compiled.variants.at(std::size_t(timing.variant)).name;
    const LoweredGraph& graph =
        compiled.lowered.at(std::size_t(compiled.atlas.whole(timing.variant)));
    for (const NodeSpan& span : timing.spans) {
      const bool inputs = span.node == NodeSpan::kInputs;
      const LoweredNode* node = inputs ? nullptr : &graph.nodes.at(std::size_t(span.node));
      if (node != nullptr) streams.insert(node->stream);
      const Json head = inputs ? Json{{"name", "inputs"},
                                      {"cat", name_of(GraphId::TRANSFER)},
                                      {"args", {{"variant", variant}}}}
                               : node_head(*node, span.node, variant);
      events.add(head, kDevice, inputs ? kInputThread : 1 + node->stream,
                 double(timing.begin_ns) + span.start * 1e9, span.seconds * 1e9);
    }
  }
  if (!timings.empty()) events.name("thread_name", kDevice, kInputThread, "inputs");
  for (const int stream : streams)
    events.name("thread_name", kDevice, 1 + stream, std::string(name_of_stream(stream)));
  for (const Spans::HostSpan& span : spans.host_spans()) {
    events.add({{"name", span.name}, {"cat", "host"}}, kHost, 0, double(span.begin_ns),
               double(span.end_ns - span.begin_ns));
  }
  const Json trace = {{"displayTimeUnit", "ns"},
                      {"otherData", {{"dropped_host_spans", spans.num_dropped()}}},
                      {"traceEvents", events.take()}};
  return trace.dump() + "\n";
}

}  // namespace tr
