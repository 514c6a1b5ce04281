// SPDX-License-Identifier: Apache-2.0
// One training step of the MNIST MLP on the CPU, against PyTorch in the same run. The step is the
// compiled one that a task replays: finite check, AdamW, metrics and counters included.
#include <CLI/CLI.hpp>

#include <cmath>
#include <iostream>

#include "algo/loss_spec.h"
#include "algo/optimizer_spec.h"
#include "core/cpu_info.h"
#include "core/format.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "training_step.h"

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
  GroupRule all;
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

/// One precision, measured in turns with the peer.
void measure(Report& report, const Options& options, const SafetensorsFile& start,
             const Peer& torch, std::optional<DType> low) {
  PeerProcess* const peer = torch.process.get();
  const std::string& peer_name = torch.name;
  const std::string precision = low ? "bf16" : "fp32";
  const std::string suffix = low ? "_bf16" : "";
  // The rule of the request, and the group of what no rule matches.
  const GroupRates rates{.lr = kLr, .decay = kDecay};
  TrainingStep step(start, request_for(low), {rates, rates}, options.threads);
  std::optional<double> error;
  const double loss = step.loss_after(kLossSteps);
  if (peer != nullptr) {
    const double theirs = std::stod(peer->ask(fmt::format("loss {} {}", kLossSteps, precision)));
    error = std::abs(loss - theirs) / std::abs(theirs);
  }
  std::vector<double> ours, fp32, own_precision;
  for (int turn = 0; turn < options.turns; ++turn) {
    settle();
    ours.push_back(step.turn_ms(options.steps, kWarmUpSteps));
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
  if (options.profile) step.print_profile(options.steps);
}

void run(const Options& options, Report& report) {
  const int threads = options.threads > 0 ? options.threads : default_num_threads();
  report.set_env("threads", std::to_string(threads));
  report.set_env("model", "784-1024-512-256-10, batch 200, AdamW, label smoothing 0.1");
  const SafetensorsFile start = shared_start();
  Peer peer;
  if (!options.python.empty()) {
    peer = start_peer(options.python, "mlp_cpu.py", start,
                      {std::to_string(threads), std::to_string(kLr), std::to_string(kDecay),
                       std::to_string(kSmoothing)});
    report.set_env("peer", peer.name);
  }
  Options fixed = options;
  fixed.threads = threads;
  measure(report, fixed, start, peer, std::nullopt);
  if (cpu_info().has("avx512_bf16")) {
    measure(report, fixed, start, peer, DType::BF16);
  }
}

int run_command(int argc, char** argv) {
  Options options;
  CLI::App app("One training step of the MNIST MLP on the CPU; with --python against PyTorch.");
  app.add_option("--json", options.json, "file for the report, - for standard output");
  app.add_option("--python", options.python, "Python with torch and safetensors: runs the peer");
  app.add_option("--threads", options.threads, "compute threads of both sides; 0: all cores");
  app.add_option("--steps", options.steps, "steps of one turn")->check(CLI::PositiveNumber);
  app.add_option("--turns", options.turns, "turns of each side")->check(CLI::PositiveNumber);
  app.add_flag("--profile", options.profile, "also the time of each node");
  CLI11_PARSE(app, argc, argv);
  Report report(argc, argv);
  run(options, report);
  report.write_json(options.json);
  return 0;
}

}  // namespace
}  // namespace tr::bench

int main(int argc, char** argv) { return tr::bench::run_main(tr::bench::run_command, argc, argv); }
