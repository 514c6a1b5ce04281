// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/executor.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <vector>

#include "backend/cuda/arena.h"
#include "backend/cuda/captured_graph.h"
#include "backend/cuda/check.h"
#include "backend/cuda/fault_locator.h"
#include "backend/cuda/handles.h"
#include "backend/cuda/held_split.h"
#include "backend/cuda/step_timer.h"
#include "backend/prepared_graph.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/format.h"
#include "core/human.h"
#include "core/log.h"
#include "device/single_communicator.h"

namespace tr::cuda {
namespace {

/// One lowered graph: its nodes made ready, which read zone A of the inputs where they run singly,
/// and the captured step for each zone.
struct Step {
  std::vector<Input> inputs;
  std::unique_ptr<PreparedGraph> prepared;
  std::array<GraphExec, 2> exec;
  int zone = 0;                           // of its last batch
  std::map<std::string, double> seconds;  // by node, since they were last taken
};

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const CompileResult& compiled, const ExecutorOptions& options)
      : compiled_(compiled), device_(options.device_index) {
    TR_CUDA(cudaSetDevice(device_));
    check_architecture();
    stream_ = std::make_unique<Stream>();
    timer_ = std::make_unique<StepTimer>(stream_->handle);
    faults_ = std::make_unique<FaultLocator>(device_, stream_->handle, options.locate_faults,
                                             fault_questions());
    arena_ = make_device_arena(compiled.memory.peak_bytes());
    feed_ = std::make_unique<InputFeed>(arena_->base(), compiled.memory.input_zone_bytes,
                                        stream_->handle);
    LaunchContext context;
    context.device = DeviceKind::CUDA;
    context.arena = arena_->base();
    context.stream = stream_->handle;
    context.communicator = options.communicator != nullptr ? options.communicator : &solo_;
    for (std::size_t i = 0; i < compiled.lowered.size(); ++i) {
      const MemoryPlan& plan = compiled.memory.variants.at(i);
      auto step = std::make_unique<Step>();
      step->prepared = std::make_unique<PreparedGraph>(compiled.lowered[i], plan, context);
      collect_places(compiled.lowered[i], plan);
      step->inputs = inputs_of(compiled.lowered[i], plan);
      steps_.push_back(std::move(step));
    }
    TR_CUDA(cudaDeviceSynchronize());  // the arena is zero from here on
    for (const auto& step : steps_) capture(*step);
  }
  ~CudaExecutor() override {
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_->handle);
  }

  void bind_input(const std::string& field, const void* data) override { feed_->bind(field, data); }

  void run(int variant) override {
    Step& step = step_of(variant);
    faults_->guard([&] {
      enter();
      if (timing_) return run_timed(variant);
      if (profiling_) return with_inputs(step, [&] { run_profiled(step); });
      const int zone = feed_->next_zone();
      copy_inputs(step, zone);
      faults_->launched(variant);
      TR_CUDA(cudaGraphLaunch(step.exec[std::size_t(zone)].handle, stream_->handle));
      feed_->done(zone);
    });
  }

  void run(int variant, GraphId id) override {
    check_variant(variant);
    const GraphAtlas::Entry& entry = compiled_.atlas.at(variant, id);
    if (entry.lowered < 0) return;
    enter();
    Step& step = *steps_.at(std::size_t(entry.lowered));
    with_inputs(step, [&] {
      for (const auto& [first, last] : entry.runs) step.prepared->run(first, last);
    });
  }

  std::int64_t last_launch() const override { return feed_->last(); }
  void wait_inputs(std::int64_t launch) override {
    faults_->guard([&] { feed_->wait(launch); });
  }
  void pin(std::span<const std::byte> memory) override {
    enter();
    void* address = const_cast<std::byte*>(memory.data());
    const cudaError_t status = cudaHostRegister(address, memory.size(), cudaHostRegisterDefault);
    if (status == cudaSuccess) return;
    cudaGetLastError();
    log_warning("GPU {}: {} of batches are not pinned ({}): their copies are slower", device_,
                format_bytes(std::int64_t(memory.size())), cudaGetErrorString(status));
  }
  /// Throws nothing: it runs while an error is on its way, and tells nothing that the next call
  /// would not. Memory that could not be pinned is no fault either.
  void unpin(std::span<const std::byte> memory) override {
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_->handle);
    cudaHostUnregister(const_cast<std::byte*>(memory.data()));
    cudaGetLastError();
  }

  void synchronize() override {
    faults_->guard([&] {
      enter();
      TR_CUDA(cudaStreamSynchronize(stream_->handle));
    });
    faults_->waited();
  }

  std::int64_t place(const std::string& name) const override {
    const auto found = places_.find(name);
    TR_CHECK(found != places_.end(), "executor: there is no persistent tensor '{}'", name);
    return found->second;
  }

  void read(std::int64_t place, void* to, std::int64_t bytes) override {
    copy(to, arena_->base() + place, bytes, cudaMemcpyDeviceToHost);
  }
  void write(std::int64_t place, const void* from, std::int64_t bytes) override {
    copy(arena_->base() + place, from, bytes, cudaMemcpyHostToDevice);
  }

  Tensor fetch(int variant, const std::string& name) override {
    Step& step = step_of(variant);
    PreparedGraph& prepared = *step.prepared;
    const LoweredGraph& graph = prepared.graph();
    for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
      const LoweredTensor& tensor = graph.tensors[id];
      if (tensor.name != name) continue;
      enter();
      if (!is_persistent(tensor.role)) with_inputs(step, [&] { prepared.run_for(TensorId(id)); });
      Tensor result(tensor.type.shape, tensor.type.dtype);
      bind_zone(step, step.zone);
      const void* address = prepared.address(TensorId(id));
      bind_zone(step, 0);
      copy(result.raw(), address, std::int64_t(result.num_bytes()), cudaMemcpyDeviceToHost);
      return result;
    }
    throw_as<InvalidArgument>("fetch: variant {} has no tensor '{}'", variant, name);
  }

  std::int64_t arena_bytes() const override { return arena_->num_bytes(); }
  MemoryUse memory() const override {
    MemoryUse use{.arena_bytes = arena_->num_bytes()};
    for (const auto& held : held_) use.data_bytes += held->num_bytes();
    return use;
  }

  int hold(const ResidentSplit& split, std::span<const int> variants) override {
    enter();
    auto held = std::make_unique<HeldSplit>(split, arena_->base(),
                                            compiled_.memory.input_zone_bytes, stream_->handle);
    for (const int variant : variants) {
      Step& step = step_of(variant);
      const int lowered = compiled_.atlas.whole(variant);
      held->capture(
          variant,
          {step.prepared.get(), &step.inputs, &compiled_.memory.variants.at(std::size_t(lowered)),
           compiled_.variants.at(std::size_t(variant)).batch},
          probe());
    }
    held_.push_back(std::move(held));
    return int(held_.size()) - 1;
  }

  void run_held(int split, int variant, std::span<const FeedRow> rows) override {
    faults_->guard([&] {
      enter();
      launched_ += std::int64_t(rows.size());
      HeldSplit& held = *held_.at(std::size_t(split));
      if (timing_) return run_held_timed(held, split, variant, rows);
      faults_->launched(variant, std::int64_t(rows.size()));
      held.run(variant, rows);
      feed_->done_all();
    });
  }

  void set_step_timing(bool on) override { timing_ = on; }
  std::vector<StepTiming> take_step_timings() override { return timer_->take(); }

  void set_profiling(bool on) override { profiling_ = on; }
  std::map<std::string, double> node_seconds(int variant) const override {
    Step& step = step_of(variant);
    std::map<std::string, double> seconds;
    for (int i = 0; i < step.prepared->num_nodes(); ++i) seconds[step.prepared->label_of(i)] = 0;
    for (const auto& [node, s] : step.seconds) seconds[node] = s;
    step.seconds.clear();
    return seconds;
  }

 private:
  /// CUDA's current device belongs to the thread, and several executors may share one.
  void enter() const { TR_CUDA(cudaSetDevice(device_)); }

  /// Code for newer GPUs is made from that of the oldest compiled for; there is none for older
  /// ones.
  void check_architecture() const {
    int major = 0, minor = 0;
    TR_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_));
    TR_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device_));
    if (10 * major + minor >= TR_CUDA_OLDEST) return;
    throw_as<Unsupported>(
        "GPU {} has compute capability {}.{}, this build has code for {}.{} and newer; configure "
        "it with -DTR_CUDA_ARCHITECTURES={}{}",
        device_, major, minor, TR_CUDA_OLDEST / 10, TR_CUDA_OLDEST % 10, major, minor);
  }

  void check_variant(int variant) const {
    TR_CHECK(variant >= 0 && std::size_t(variant) < compiled_.atlas.num_variants(),
             "executor: variant is {}, there are {}", variant, compiled_.atlas.num_variants());
  }
  Step& step_of(int variant) const {
    check_variant(variant);
    return *steps_.at(std::size_t(compiled_.atlas.whole(variant)));
  }

  /// Lets single nodes, and what is captured next, read a zone.
  void bind_zone(Step& step, int zone) {
    for (const Input& input : step.inputs)
      step.prepared->bind_input(input.field, feed_->place(input, zone));
  }

  void copy_inputs(Step& step, int zone) {
    feed_->copy(step.inputs, zone);
    step.zone = zone;
    ++launched_;
  }

  /// Copies the bound fields into zone A and enqueues what reads them there.
  template <typename Body>
  void with_inputs(Step& step, Body&& body) {
    copy_inputs(step, 0);
    body();
    feed_->done(0);
  }

  void capture(Step& step) {
    for (const int zone : {1, 0}) {
      bind_zone(step, zone);
      GraphExec& exec = step.exec[std::size_t(zone)];
      exec = captured(*step.prepared);
      TR_CUDA(cudaGraphUpload(exec.handle, stream_->handle));
    }
  }

  GraphExec captured(PreparedGraph& prepared) {
    if (const StepProbe* marks = probe())
      return capture_in_order(stream_->handle, prepared, *marks);
    GraphCapture graph(stream_->handle);
    graph.add(prepared, [](int) { return GraphCapture::Tail(); });
    return GraphExec(graph.instantiate());
  }

  void copy(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind) {
    faults_->guard([&] {
      enter();
      TR_CUDA(cudaMemcpyAsync(to, from, std::size_t(bytes), kind, stream_->handle));
    });
    synchronize();
  }

  /// The step once, node by node; then each node many times in a graph of its own, as in a step:
  /// what it takes behind its predecessor, the edge included. (Events around single nodes would add
  /// microseconds.) The nodes' state goes on with every repetition.
  void run_profiled(Step& step) {
    constexpr int kRepeats = 50;
    PreparedGraph& prepared = *step.prepared;
    prepared.run_all();
    Event begin, end;
    for (int i = 0; i < prepared.num_nodes(); ++i) {
      GraphCapture graph(stream_->handle);
      GraphCapture::Tail ended, started;
      for (int r = 0; r < kRepeats; ++r) {
        // State that a repetition reads early may be of the one before the last: only its time
        // counts.
        GraphCapture::Tail& tail = prepared.starts_early(i) ? started : ended;
        tail = graph.add(
            ended, [&] { prepared.run(i, i + 1); }, started);
      }
      const GraphExec exec(graph.instantiate());
      TR_CUDA(cudaGraphLaunch(exec.handle, stream_->handle));
      TR_CUDA(cudaEventRecord(begin.handle, stream_->handle));
      TR_CUDA(cudaGraphLaunch(exec.handle, stream_->handle));
      TR_CUDA(cudaEventRecord(end.handle, stream_->handle));
      synchronize();
      float ms = 0;
      TR_CUDA(cudaEventElapsedTime(&ms, begin.handle, end.handle));
      step.seconds[prepared.label_of(i)] += double(ms) / 1000 / kRepeats;
    }
  }

  void run_timed(int variant) {
    Step& step = step_of(variant);
    const StepTimer::Step timed{
        .variant = variant, .prepared = step.prepared.get(), .frame = {}, .marks = probe()};
    timer_->prepare(timed);
    const std::int64_t begin_ns = now_ns();
    with_inputs(step, [&] {
      faults_->launched(variant);
      timer_->run(timed, begin_ns);
    });
    faults_->waited();
  }

  void run_held_timed(HeldSplit& held, int split, int variant, std::span<const FeedRow> rows) {
    const StepTimer::Step timed{variant, split, step_of(variant).prepared.get(),
                                held.frame(variant), probe()};
    timer_->prepare(timed);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      held.upload(rows.subspan(i, 1));
      synchronize();
      faults_->launched(variant);
      timer_->run(timed, now_ns());
      faults_->waited();
    }
  }

  /// What marks the nodes of steps; null unless they are wanted.
  const StepProbe* probe() {
    if (faults_->marks() == nullptr) return nullptr;
    marks_ = faults_->marks()->probe(stream_->handle);
    return &marks_;
  }

  FaultQuestions fault_questions() {
    return {.name_variant =
                [this](int variant) { return compiled_.variants.at(std::size_t(variant)).name; },
            .describe = [this](int variant,
                               int node) { return step_of(variant).prepared->words_for(node); },
            .failing_node = [this](int variant) { return failing_node(variant); }};
  }

  /// The weights and all other state are put back afterwards.
  std::string failing_node(int variant) {
    Step& step = step_of(variant);
    PreparedGraph& prepared = *step.prepared;
    bind_zone(step, step.zone);
    std::vector<std::byte> state(std::size_t(compiled_.memory.persistent_bytes));
    const auto copy_state = [&](void* to, const void* from, cudaMemcpyKind kind) {
      TR_CUDA(cudaMemcpyAsync(to, from, state.size(), kind, stream_->handle));
      TR_CUDA(cudaStreamSynchronize(stream_->handle));
    };
    copy_state(state.data(), arena_->base(), cudaMemcpyDeviceToHost);
    std::string found;
    for (int node = 0; node < prepared.num_nodes() && found.empty(); ++node) {
      try {
        prepared.run(node, node + 1);
        TR_CUDA(cudaStreamSynchronize(stream_->handle));
      } catch (const Error& error) {
        found = fmt::format("{} ({})", prepared.words_for(node), error.what());
        cudaGetLastError();
      }
    }
    cudaGetLastError();
    const bool lives = cudaStreamSynchronize(stream_->handle) == cudaSuccess;
    if (lives) copy_state(arena_->base(), state.data(), cudaMemcpyHostToDevice);
    bind_zone(step, 0);
    return found;
  }

  void collect_places(const LoweredGraph& graph, const MemoryPlan& plan) {
    for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
      const LoweredTensor& tensor = graph.tensors[id];
      if (is_persistent(tensor.role) && plan.offsets[id] >= 0)
        places_.emplace(tensor.name, plan.offsets[id]);
    }
  }

  static std::vector<Input> inputs_of(const LoweredGraph& graph, const MemoryPlan& plan) {
    std::vector<Input> inputs;
    for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
      const LoweredTensor& tensor = graph.tensors[id];
      if (tensor.role == Role::INPUT && tensor.view_of == kNoTensor)
        inputs.push_back({tensor.name, plan.offsets[id], tensor.bytes});
    }
    return inputs;
  }

  const CompileResult& compiled_;
  const int device_;
  SingleCommunicator solo_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<Step>> steps_;  // by lowered graph
  std::map<std::string, std::int64_t, std::less<>> places_;
  std::unique_ptr<InputFeed> feed_;
  std::vector<std::unique_ptr<HeldSplit>> held_;
  std::unique_ptr<FaultLocator> faults_;
  StepProbe marks_;
  std::unique_ptr<StepTimer> timer_;
  std::int64_t launched_ = 0;
  bool profiling_ = false, timing_ = false;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const CompileResult& compiled,
                                        const ExecutorOptions& options) {
  return std::make_unique<CudaExecutor>(compiled, options);
}

}  // namespace tr::cuda
