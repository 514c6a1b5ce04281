// SPDX-License-Identifier: Apache-2.0
// One training step of the MNIST MLP on the CPU, against PyTorch in the same run. The step is the
// compiled one that a task replays: finite check, AdamW, metrics and counters included.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "algo/loss_spec.h"
#include "algo/optimizer_spec.h"
#include "backend/executor.h"
#include "bench_report.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/cpu_info.h"
#include "graph/step_tables.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/tensor/safetensors.h"

namespace tr::bench {
namespace {

constexpr std::int64_t kBatch = 200, kPixels = 784, kClasses = 10, kNumBatches = 8;
constexpr int kLossSteps = 60, kWarmUpSteps = 5;
constexpr float kLr = 1e-3f, kDecay = 1e-4f, kSmoothing = 0.1f;

struct Options {
  std::string json, python;
  int threads = 0;
  int steps = 100;  // of one turn
  int turns = 5;    // of each side, alternating
  bool profile = false;
};

/// Initial weights (PyTorch's names) and batches that both sides train with.
SafetensorsFile shared_start() {
  SafetensorsFile file;
  const std::vector<std::int64_t> widths = {kPixels, 1024, 512, 256, kClasses};
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const float bound = std::sqrt(6.0f / float(widths[i]));  // Kaiming uniform, fan-in
    const std::string name = std::to_string(2 * i);
    file.tensors.push_back({name + ".weight", Tensor::uniform({widths[i + 1], widths[i]}, -bound,
                                                              bound, /*seed=*/i + 1)});
    file.tensors.push_back({name + ".bias", Tensor::zeros({widths[i + 1]})});
  }
  file.tensors.push_back({"x", Tensor::normal({kNumBatches, kBatch, kPixels}, 0, 1, /*seed=*/11)});
  const Tensor draws = Tensor::uniform({kNumBatches, kBatch}, 0, float(kClasses), /*seed=*/12);
  file.tensors.push_back({"y", draws.to(DType::INT32)});
  return file;
}

CompileRequest request_for(std::optional<DType> low) {
  CompileRequest request;
  request.model =
      seq(fc(1024, true), relu(), fc(512, true), relu(), fc(256, true), relu(), fc(kClasses, true));
  request.sample_fields = {{"image", {Shape{kPixels}, DType::FP32}},
                           {"label", {Shape{}, DType::INT32}}};
  request.loss = loss_spec(CrossEntropyLoss().label_smoothing(kSmoothing));
  request.optimizer = optimizer_spec(AdamW());
  request.graph.low_dtype = low;
  ParamGroup all;
  all.decay = true;  // PyTorch's default decays biases too
  request.graph.groups = {all};
  VariantKey key;
  key.batch = kBatch;
  key.fields = {{"image", {Shape{kBatch, kPixels}, low.value_or(DType::FP32)}},
                {"label", {Shape{kBatch}, DType::INT32}}};
  key.name = "train";
  request.variants = {key};
  return request;
}

/// The compiled step with its memory, set to the shared start.
class Step {
 public:
  Step(const SafetensorsFile& start, std::optional<DType> low, int threads)
      : start_(start), low_(low) {
    const Stopwatch watch;
    const auto oracle = make_kernel_oracle(DeviceKind::CPU, tuning_);
    compiled_ = compile(request_for(low), *oracle);
    ExecutorOptions options;
    options.num_threads = threads;
    executor_ = make_cpu_executor(compiled_, options);
    compile_ms_ = watch.ms();
    const DType dtype = low.value_or(DType::FP32);
    for (std::int64_t i = 0; i < kNumBatches; ++i) {
      images_.push_back(batch_of(start.at("x"), i).to(dtype));
      labels_.push_back(batch_of(start.at("y"), i));
    }
    reset();
  }

  void reset() {
    for (std::size_t p = 0; p < compiled_.arch.params.size(); ++p) {
      const Param& param = compiled_.arch.params[p];
      const Tensor& value = start_.at(param.name);
      write_param("range(" + std::string(name_of(Role::WEIGHT)) + ")", p, value);
      if (low_)
        write_param("range(" + std::string(name_of(Role::WEIGHT_CAST)) + ")", p, value.to(*low_));
    }
    const std::vector<Segment>& segments = compiled_.memory.segments;
    write("segments", segments.data(), segments.size() * sizeof(Segment));
    const float loss_scale = 1;
    write("loss_scale", &loss_scale, sizeof(loss_scale));
    const int groups = 2;  // the one above and the rule that matches the rest
    const auto columns = std::size_t(step_floats_columns(groups));
    std::vector<float> table(columns * std::size_t(GraphOptions{}.table_capacity));
    for (std::size_t at = 0; at < table.size(); at += columns) {
      float* row = table.data() + at;
      row[kFloatInvWeight] = 1.0f / float(kBatch);
      for (int g = 0; g < groups; ++g) {
        row[kFloatHeader + kGroupColumns * g + kGroupLr] = kLr;
        row[kFloatHeader + kGroupColumns * g + kGroupDecay] = kDecay;
      }
    }
    write("step_floats", table.data(), table.size() * sizeof(float));
    done_ = 0;
  }

  void run() {
    const auto batch = std::size_t(done_++ % kNumBatches);
    executor_->bind_input("image", images_[batch].raw());
    executor_->bind_input("label", labels_[batch].raw());
    executor_->run(0);
  }

  /// Mean loss of the last step.
  double loss() {
    const std::int64_t row = (done_ - 1) % GraphOptions{}.table_capacity;
    float result[kResultColumns];
    executor_->read(executor_->place("results") + row * std::int64_t(sizeof(result)), result,
                    sizeof(result));
    TR_CHECK(result[kResultFoundInf] == 0, "bench: step {} found a gradient that is not finite",
             done_);
    return double(result[kResultLossSum]) / double(kBatch);
  }

  Executor& executor() { return *executor_; }
  const TuningTable& tuning() const { return tuning_; }
  double compile_ms() const { return compile_ms_; }

 private:
  static Tensor batch_of(const Tensor& all, std::int64_t index) {
    Tensor batch(all.shape().drop_first(), all.dtype());
    std::memcpy(batch.raw(),
                static_cast<const std::byte*>(all.raw()) + index * std::int64_t(batch.num_bytes()),
                batch.num_bytes());
    return batch;
  }
  void write(const std::string& name, const void* from, std::size_t bytes) {
    executor_->write(executor_->place(name), from, std::int64_t(bytes));
  }
  /// Writes the parameter's part of a range.
  void write_param(const std::string& range, std::size_t param, const Tensor& value) {
    const std::int64_t offset = compiled_.memory.param_element_offset[param];
    const std::int64_t place =
        executor_->place(range) + offset * std::int64_t(size_of(value.dtype()));
    executor_->write(place, value.raw(), std::int64_t(value.num_bytes()));
  }

  const SafetensorsFile& start_;
  std::optional<DType> low_;
  TuningTable tuning_;
  CompileResult compiled_;
  std::unique_ptr<Executor> executor_;
  std::vector<Tensor> images_, labels_;
  std::int64_t done_ = 0;
  double compile_ms_ = 0;
};

double loss_after(Step& step, int steps) {
  for (int i = 0; i < steps; ++i) step.run();
  return step.loss();
}

/// Median milliseconds of a turn of steps.
double turn_ms(Step& step, int steps) {
  std::vector<double> samples;
  for (int i = 0; i < kWarmUpSteps; ++i) step.run();
  for (int i = 0; i < steps; ++i) {
    const Stopwatch watch;
    step.run();
    samples.push_back(watch.ms());
  }
  step.loss();  // the steps were good ones
  return summarize(samples).median;
}

void print_profile(Step& step, int steps) {
  step.executor().set_profiling(true);
  step.executor().node_seconds(0);
  for (int i = 0; i < steps; ++i) step.run();
  double total = 0;
  for (const auto& [node, seconds] : step.executor().node_seconds(0)) {
    std::cerr << fmt::format("  {:<48} {:9.1f} us\n", node, seconds * 1e6 / steps);
    total += seconds;
  }
  std::cerr << fmt::format("  {:<48} {:9.1f} us\n", "sum", total * 1e6 / steps);
  step.executor().set_profiling(false);
}

/// PyTorch, if it was asked for.
struct Peer {
  std::unique_ptr<PeerProcess> process;
  std::string name;
};

/// One precision, measured in turns with the peer.
void measure(Report& report, const Options& options, const SafetensorsFile& start,
             const Peer& torch, std::optional<DType> low) {
  PeerProcess* const peer = torch.process.get();
  const std::string& peer_name = torch.name;
  const std::string precision = low ? "bf16" : "fp32";
  const std::string suffix = low ? "_bf16" : "";
  Step step(start, low, options.threads);
  std::optional<double> error;
  const double loss = loss_after(step, kLossSteps);
  if (peer != nullptr) {
    const double theirs = std::stod(peer->ask(fmt::format("loss {} {}", kLossSteps, precision)));
    error = std::abs(loss - theirs) / std::abs(theirs);
  }
  std::vector<double> ours, fp32, own_precision;
  // Threads of the side that has just finished may spin on for a while (OpenMP's do for 200 ms).
  const auto settle = [] { std::this_thread::sleep_for(std::chrono::milliseconds(400)); };
  for (int turn = 0; turn < options.turns; ++turn) {
    settle();
    ours.push_back(turn_ms(step, options.steps));
    if (peer == nullptr) continue;
    settle();
    fp32.push_back(std::stod(peer->ask(fmt::format("time {} fp32", options.steps))));
    if (low)
      own_precision.push_back(std::stod(peer->ask(fmt::format("time {} bf16", options.steps))));
  }
  Row row = make_row("step" + suffix, "ms", summarize(ours));
  row.error = error;
  if (peer != nullptr)
    set_peer(row, peer_name + ", fp32", summarize(fp32), /*less_is_better=*/true);
  report.add(row);
  if (!own_precision.empty()) {
    Row same = make_row("step_bf16_both", "ms", summarize(ours));
    same.error = error;
    set_peer(same, peer_name + ", bf16 autocast", summarize(own_precision), true);
    report.add(same);
  }
  report.add(make_row("compile" + suffix, "ms", summarize({step.compile_ms()})));
  if (options.profile) print_profile(step, options.steps);
}

void run(const Options& options, Report& report) {
  const int threads = options.threads > 0 ? options.threads : default_num_threads();
  report.set_env("threads", std::to_string(threads));
  report.set_env("model", "784-1024-512-256-10, batch 200, AdamW, label smoothing 0.1");
  const SafetensorsFile start = shared_start();
  Peer peer;
  if (!options.python.empty()) {
    const auto path = std::filesystem::temp_directory_path() /
                      fmt::format("bench_mlp_cpu_{}.safetensors", now_ns());
    save_safetensors(path.string(), start);
    peer.process = std::make_unique<PeerProcess>(
        options.python,
        std::vector<std::string>{find_peer("mlp_cpu.py"), path.string(), std::to_string(threads),
                                 std::to_string(kLr), std::to_string(kDecay),
                                 std::to_string(kSmoothing)});
    peer.name = peer.process->ask("version");
    std::filesystem::remove(path);
    report.set_env("peer", peer.name);
  }
  Options fixed = options;
  fixed.threads = threads;
  measure(report, fixed, start, peer, std::nullopt);
  if (cpu_info().has("avx512_bf16")) {
    measure(report, fixed, start, peer, DType::BF16);
  }
}

}  // namespace
}  // namespace tr::bench

int main(int argc, char** argv) {
  using namespace tr::bench;
  Options options;
  CLI::App app("One training step of the MNIST MLP on the CPU; with --python against PyTorch.");
  app.add_option("--json", options.json, "file for the report, - for standard output");
  app.add_option("--python", options.python, "Python with torch and safetensors: runs the peer");
  app.add_option("--threads", options.threads, "compute threads of both sides; 0: all cores");
  app.add_option("--steps", options.steps, "steps of one turn")->check(CLI::PositiveNumber);
  app.add_option("--turns", options.turns, "turns of each side")->check(CLI::PositiveNumber);
  app.add_flag("--profile", options.profile, "also the time of each node");
  CLI11_PARSE(app, argc, argv);
  try {
    Report report(argc, argv);
    run(options, report);
    report.write_json(options.json);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
