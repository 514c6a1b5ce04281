// SPDX-License-Identifier: Apache-2.0
#include "backend/executor.h"

#include <cstring>
#include <utility>

#include "backend/prepared_graph.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/cpu_info.h"
#include "device/arena.h"
#include "device/single_communicator.h"

namespace tr {
namespace {

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const CompileResult& compiled, const ExecutorOptions& options)
      : compiled_(compiled),
        arena_(make_host_arena(compiled.memory.peak_bytes())),
        pool_(options.num_threads > 0 ? options.num_threads : default_num_threads()) {
    LaunchContext context;
    context.arena = arena_->base();
    context.pool = &pool_;
    context.communicator = options.communicator != nullptr ? options.communicator : &solo_;
    for (std::size_t i = 0; i < compiled.lowered.size(); ++i) {
      const MemoryPlan& plan = compiled.memory.variants.at(i);
      graphs_.push_back(std::make_unique<PreparedGraph>(compiled.lowered[i], plan, context));
      collect_persistent(compiled.lowered[i], plan);
    }
  }

  void bind_input(const std::string& field, const void* data) override {
    for (const auto& graph : graphs_) graph->bind_input(field, data);
  }

  void run(int variant) override {
    if (timing_) return run_timed(variant);
    graph_of(variant).run_all();
  }

  void run(int variant, GraphId id) override {
    check_variant(variant);
    const GraphAtlas::Entry& entry = compiled_.atlas.at(variant, id);
    if (entry.lowered < 0) return;
    for (const auto& [first, last] : entry.runs)
      graphs_.at(std::size_t(entry.lowered))->run(first, last);
  }

  void synchronize() override {}  // run() returns when all is done

  std::int64_t place(const std::string& name) const override {
    const auto found = persistent_.find(name);
    TR_CHECK(found != persistent_.end(), "executor: there is no persistent tensor '{}'", name);
    return found->second;
  }
  void read(std::int64_t place, void* to, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, arena_->base() + place, std::size_t(bytes));
  }
  void write(std::int64_t place, const void* from, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(arena_->base() + place, from, std::size_t(bytes));
  }

  Tensor fetch(int variant, const std::string& name) override {
    PreparedGraph& prepared = graph_of(variant);
    const LoweredGraph& graph = prepared.graph();
    for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
      const LoweredTensor& tensor = graph.tensors[id];
      if (tensor.name != name) continue;
      if (!is_persistent(tensor.role)) prepared.run_for(TensorId(id));
      Tensor copy(tensor.type.shape, tensor.type.dtype);
      std::memcpy(copy.raw(), prepared.address(TensorId(id)), copy.num_bytes());
      return copy;
    }
    throw_as<InvalidArgument>("fetch: variant {} has no tensor '{}'", variant, name);
  }

  std::int64_t arena_bytes() const override { return arena_->num_bytes(); }

  void set_step_timing(bool on) override { timing_ = on; }
  std::vector<StepTiming> take_step_timings() override { return std::exchange(timings_, {}); }
  void set_profiling(bool on) override {
    for (const auto& graph : graphs_) graph->set_profiling(on);
  }
  std::map<std::string, double> node_seconds(int variant) const override {
    return graph_of(variant).take_node_seconds();
  }

 private:
  void check_variant(int variant) const {
    TR_CHECK(variant >= 0 && std::size_t(variant) < compiled_.atlas.num_variants(),
             "executor: variant is {}, there are {}", variant, compiled_.atlas.num_variants());
  }
  PreparedGraph& graph_of(int variant) const {
    check_variant(variant);
    return *graphs_.at(std::size_t(compiled_.atlas.whole(variant)));
  }

  void run_timed(int variant) {
    PreparedGraph& graph = graph_of(variant);
    StepTiming timing{.variant = variant, .begin_ns = now_ns(), .spans = {}};
    timing.spans.reserve(std::size_t(graph.num_nodes()));
    std::int64_t at = timing.begin_ns;
    for (int node = 0; node < graph.num_nodes(); ++node) {
      graph.run(node, node + 1);
      const std::int64_t end = now_ns();
      timing.spans.push_back({node, double(at - timing.begin_ns) * 1e-9, double(end - at) * 1e-9});
      at = end;
    }
    timings_.push_back(std::move(timing));
  }

  void collect_persistent(const LoweredGraph& graph, const MemoryPlan& plan) {
    for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
      const LoweredTensor& tensor = graph.tensors[id];
      if (is_persistent(tensor.role) && plan.offsets[id] >= 0) {
        persistent_.emplace(tensor.name, plan.offsets[id]);
      }
    }
  }

  const CompileResult& compiled_;
  SingleCommunicator solo_;
  std::unique_ptr<Arena> arena_;
  ThreadPool pool_;
  std::vector<std::unique_ptr<PreparedGraph>> graphs_;  // by lowered graph
  std::map<std::string, std::int64_t, std::less<>> persistent_;
  bool timing_ = false;
  std::vector<StepTiming> timings_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(const CompileResult& compiled,
                                            const ExecutorOptions& options) {
  require_supported_cpu();
  return std::make_unique<CpuExecutor>(compiled, options);
}

}  // namespace tr
