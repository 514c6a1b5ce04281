// SPDX-License-Identifier: Apache-2.0
// Whole epochs of MLPs on a GPU, end to end: data, augmentation, training and validation, as a
// user's program runs them. Row mlp_article is the first article's job; others vary batch, width,
// depth and ops.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench_report.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/format.h"
#include "core/log.h"
#include "renaissance.h"

namespace tr::bench {
namespace {

struct Options {
  std::string data = "data/mnist", json, python, amp = "fp16", place = "auto", activation = "relu";
  std::vector<int> widths = {1024, 512, 256};
  int batch = 200, epochs = 20, device = 0, seed = 1;
  double dropout = 0;
  std::string name = "mlp_article";
  bool augment = true, profile = false;
};

BluePrint activation(const std::string& name) {
  if (name == "relu") return relu();
  if (name == "silu") return silu();
  if (name == "gelu") return gelu();
  throw_as<InvalidArgument>("--activation is {}, expected relu, silu or gelu", name);
}

BluePrint network(const Options& options) {
  std::vector<BluePrint> layers;
  for (const int width : options.widths) {
    layers.push_back(fc(width, true));
    layers.push_back(activation(options.activation));
    if (options.dropout > 0) layers.push_back(dropout(options.dropout));
  }
  layers.push_back(fc(10, true));
  return seq(layers);
}

Session session_of(const Options& options) {
  Session session;
  session.global.manual_seed(std::uint64_t(options.seed))
      .global_batch_size(options.batch)
      .input_resolution(28)
      .use_gpu(std::to_string(options.device));
  session.preprocessor.dataset("mnist", options.data).normalization(NormMode::MNIST);
  if (options.augment) {
    session.preprocessor.train_transforms(Pad(2), RandomCrop(28), RandomRotation(20),
                                          RandomScale(0.8f, 1.2f), RandomErasing(0.5f));
  }
  return session;
}

/// Epochs/s of every epoch but the first, validation and all bookkeeping included.
struct Run {
  std::vector<double> rates;
  TrainingResult result;
  double compile_ms = 0;
};

Run run_epochs(const Options& options) {
  DeepLearningTask task;
  std::vector<double> ends;
  const Stopwatch watch;
  Callbacks callbacks;
  callbacks.on_epoch = [&](DeepLearningTask&, const EpochRecord&) {
    ends.push_back(watch.seconds());
  };
  task.session(session_of(options))
      .set("amp", options.amp)
      .set("data_place", options.place)
      .model(network(options))
      .loss(CrossEntropyLoss().label_smoothing(0.1f))
      .optimizer(AdamW().weight_decay(1e-4))
      .scheduler(CosineAnnealingLR().base_lr(1e-3).warmup(5))
      .total_epochs(options.epochs)
      .callbacks(callbacks)
      .compile(CompileInfo::NONE);
  Run run;
  run.compile_ms = task.compile_ms();
  if (options.profile) {
    double sum = 0;
    for (const OpTime& op : task.profile()) {
      std::fprintf(stderr, "  %-40s %8.2f us\n", op.op.c_str(), op.seconds * 1e6);
      sum += op.seconds;
    }
    std::fprintf(stderr, "  %-40s %8.2f us\n", "sum", sum * 1e6);
  }
  run.result = task.run();
  for (std::size_t e = 1; e < ends.size(); ++e) run.rates.push_back(1 / (ends[e] - ends[e - 1]));
  return run;
}

void set_torch_peer(Row& row, const Options& options) {
  std::vector<std::string> arguments = {find_peer("mlp_torch.py"),
                                        "--data",
                                        options.data,
                                        "--batch",
                                        std::to_string(options.batch),
                                        "--activation",
                                        options.activation,
                                        "--dropout",
                                        fmt::format("{}", options.dropout),
                                        "--widths",
                                        fmt::format("{}", fmt::join(options.widths, ",")),
                                        "--seed",
                                        std::to_string(options.seed)};
  if (!options.augment) arguments.push_back("--no-augment");
  PeerProcess peer(options.python, arguments);
  const std::string name = peer.ask("name");
  const std::string answer = peer.ask(fmt::format("{}", options.epochs));
  std::vector<double> rates;
  double top1 = 0;
  std::size_t at = 0;
  for (std::size_t end = answer.find(' '); end != std::string::npos; end = answer.find(' ', at)) {
    rates.push_back(std::stod(answer.substr(at, end - at)));
    at = end + 1;
  }
  top1 = std::stod(answer.substr(at));
  set_peer(row, fmt::format("{}, top-1 {:.4f}", name, top1), summarize(rates), false);
}

void measure(const Options& options, Report& report) {
  const Run run = run_epochs(options);
  Row row = make_row(options.name, "epochs/s", summarize(run.rates));
  if (!options.python.empty()) set_torch_peer(row, options);
  report.set_env(options.name + ".compile_ms", fmt::format("{:.0f}", run.compile_ms));
  report.set_env(options.name + ".best_top1", fmt::format("{:.4f}", run.result.best_top1));
  report.set_env(options.name + ".weights_sha256", run.result.weights_sha256);
  report.add(std::move(row));
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Whole epochs of MLPs on a GPU"};
  app.add_option("--name", options.name, "of the row");
  app.add_option("--data", options.data, "folder of MNIST's files")->capture_default_str();
  app.add_option("--json", options.json, "file for the rows, - for standard output");
  app.add_option("--python", options.python, "a Python with PyTorch: runs the peer too");
  app.add_option("--device", options.device, "which GPU");
  app.add_option("--amp", options.amp, "off, fp16 or bf16")->capture_default_str();
  app.add_option("--place", options.place, "auto, device or host")->capture_default_str();
  app.add_option("--activation", options.activation, "")->capture_default_str();
  app.add_option("--widths", options.widths, "hidden layers")->delimiter(',');
  app.add_option("--dropout", options.dropout, "after each hidden layer");
  app.add_option("--batch", options.batch, "")->capture_default_str();
  app.add_option("--epochs", options.epochs, "the first is not counted")->capture_default_str();
  app.add_option("--seed", options.seed, "")->capture_default_str();
  app.add_flag("!--no-augment", options.augment, "images as they are");
  app.add_flag("--profile", options.profile, "print each op's time first");
  CLI11_PARSE(app, argc, argv);
  Report report(argc, argv);
  measure(options, report);
  report.write_json(options.json);
  return 0;
}

}  // namespace
}  // namespace tr::bench

int main(int argc, char** argv) { return tr::bench::run_main(tr::bench::run, argc, argv); }
