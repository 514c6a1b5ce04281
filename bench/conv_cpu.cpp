// SPDX-License-Identifier: Apache-2.0
// Training steps of convolutional networks for 32 x 32 pictures on the CPU, against PyTorch in the
// same run. The step is the compiled one that a task replays: finite check, SGD with Nesterov
// momentum, metrics and counters included.
#include <CLI/CLI.hpp>

#include <cmath>
#include <iostream>

#include "algo/loss_spec.h"
#include "algo/optimizer_spec.h"
#include "core/cpu_info.h"
#include "core/format.h"
#include "graph/arch_plan.h"
#include "renaissance/zoo/zoo.h"
#include "task/file_layout.h"
#include "training_step.h"

namespace tr::bench {
namespace {

constexpr std::int64_t kNumBatches = 4;
constexpr int kWarmUpSteps = 2;
constexpr float kLr = 0.02f, kMomentum = 0.9f, kDecay = 5e-4f;

struct Options {
  std::string json, python;
  std::vector<std::string> models = {"cifar_resnet20", "cifar_resnet18", "cifar_vgg11_bn"};
  std::int64_t batch = 128;
  int threads = 0;
  int loss_steps = 30;  // after which the losses are compared
  int steps = 8;        // of one turn
  int turns = 5;        // of each side, alternating
  bool profile = false;
  bool bf16 = false;
};

CompileRequest request_for(const zoo::Model& model, const Options& options) {
  CompileRequest request;
  request.model = model.blueprint;
  request.sample_fields = {{"image", {model.input, DType::FP32}},
                           {"label", {Shape{}, DType::INT32}}};
  request.loss = loss_spec(CrossEntropyLoss());
  request.optimizer = optimizer_spec(SGD().momentum(kMomentum).nesterov());
  if (options.bf16) request.graph.low_dtype = DType::BF16;
  VariantKey key;
  key.batch = options.batch;
  key.fields = {
      {"image", {model.input.prepend(options.batch), options.bf16 ? DType::BF16 : DType::FP32}},
      {"label", {Shape{options.batch}, DType::INT32}}};
  key.name = "train";
  request.variants = {key};
  return request;
}

/// Initial weights (PyTorch's names and layout) and batches that both sides train with.
SafetensorsFile shared_start(const zoo::Model& model, std::int64_t batch) {
  SafetensorsFile file;
  std::uint64_t seed = 0;
  for (const Param& param :
       expand(model.blueprint, {{"image", {model.input, DType::FP32}}}).params) {
    if (param.spec.kind != ParamKind::WEIGHT) continue;  // the others begin alike on both sides
    const float bound = std::sqrt(6.0f / float(param.spec.fan_in));  // Kaiming uniform
    file.tensors.push_back(
        {param.name, Tensor::uniform(file_shape(param.spec), -bound, bound, ++seed)});
  }
  file.tensors.push_back({"x", Tensor::normal(model.input.prepend(batch).prepend(kNumBatches), 0, 1,
                                              /*seed=*/1001)});
  const Tensor draws =
      Tensor::uniform({kNumBatches, batch}, 0, float(model.num_classes), /*seed=*/1002);
  file.tensors.push_back({"y", draws.to(DType::INT32)});
  return file;
}

void measure(Report& report, const Options& options, const std::string& name) {
  const zoo::Model model = zoo::make_model(name);
  const SafetensorsFile start = shared_start(model, options.batch);
  Peer peer;
  if (!options.python.empty()) {
    peer = start_peer(
        options.python, "conv_cpu.py", start,
        {name, std::to_string(options.threads), std::to_string(kLr), std::to_string(kMomentum),
         std::to_string(kDecay), options.bf16 ? "bf16" : "fp32"});
    report.set_env("peer", peer.name);
  }
  TrainingStep step(start, request_for(model, options),
                    {{.lr = kLr, .decay = kDecay, .momentum = kMomentum}}, options.threads);
  std::optional<double> error;
  const double loss = step.loss_after(options.loss_steps);
  if (peer.process) {
    const double theirs = std::stod(peer.process->ask(fmt::format("loss {}", options.loss_steps)));
    error = std::abs(loss - theirs) / std::abs(theirs);
  }
  const auto rate = [&](double ms) { return double(options.batch) / ms * 1e3; };
  std::vector<double> ours, plain, channels_last;
  for (int turn = 0; turn < options.turns; ++turn) {
    settle();
    ours.push_back(rate(step.turn_ms(options.steps, kWarmUpSteps)));
    if (!peer.process) continue;
    for (const bool last : {false, true}) {
      settle();
      const std::string layout = last ? "channels_last" : "contiguous";
      (last ? channels_last : plain)
          .push_back(
              rate(std::stod(peer.process->ask(fmt::format("time {} {}", options.steps, layout)))));
    }
  }
  Row row = make_row(name, "images/s", summarize(ours));
  row.error = error;
  if (peer.process) {
    // The faster of PyTorch's two layouts counts.
    const Summary a = summarize(plain), b = summarize(channels_last);
    const bool last = b.median > a.median;
    set_peer(row, peer.name + (last ? ", channels_last" : ", contiguous"), last ? b : a,
             /*less_is_better=*/false);
  }
  report.add(row);
  report.add(make_row(name + "_compile", "ms", summarize({step.compile_ms()})));
  if (options.profile) step.print_profile(options.steps);
}

void run(Options options, Report& report) {
  if (options.threads == 0) options.threads = default_num_threads();
  report.set_env("threads", std::to_string(options.threads));
  report.set_env("step", fmt::format("32 x 32 pictures, batch {}, {}, SGD Nesterov 0.9",
                                     options.batch, options.bf16 ? "bf16" : "fp32"));
  report.set_env("error", fmt::format("of the loss after {} steps", options.loss_steps));
  for (const std::string& name : options.models) measure(report, options, name);
}

int run_command(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Training steps of networks for 32 x 32 pictures on the CPU; with --python against PyTorch.");
  app.add_option("--json", options.json, "file for the report, - for standard output");
  app.add_option("--python", options.python, "Python with torch and safetensors: runs the peer");
  app.add_option("--models", options.models, "names of the zoo")->delimiter(',');
  app.add_option("--batch", options.batch, "pictures of a step")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "compute threads of both sides; 0: all cores");
  app.add_option("--loss-steps", options.loss_steps, "steps after which the losses are compared")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "steps of one turn")->check(CLI::PositiveNumber);
  app.add_option("--turns", options.turns, "turns of each side")->check(CLI::PositiveNumber);
  app.add_flag("--bf16", options.bf16, "bf16 storage and products; the peer: autocast");
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
