// SPDX-License-Identifier: Apache-2.0
// Whole epochs of MLPs on a GPU, end to end: data, augmentation, training and validation, as a
// user's program runs them. Row mlp_article is the first article's job; others vary batch, width,
// depth and ops. With --peak also what share of the GPU's fastest products, measured right behind
// the training, a training step reaches.
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
#include "gpu_meter.h"
#include "matmul_peak.h"
#include "renaissance.h"

namespace tr::bench {
namespace {

struct Options {
  std::string data = "data/mnist", json, python, amp = "fp16", place = "auto", activation = "relu";
  std::vector<int> widths = {1024, 512, 256};
  int batch = 200, epochs = 20, device = 0, seed = 1;
  double dropout = 0;
  std::string name = "mlp_article";
  bool augment = true, profile = false, peak = false;
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

/// Of every epoch but the first: epochs/s, validation and all bookkeeping included, and the time of
/// a step of a whole batch in the training phase alone.
struct Run {
  std::vector<double> rates, step_ms;
  TrainingResult result;
  double compile_ms = 0;
  std::string meter;
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
  GpuMeter meter(options.device);
  run.result = task.run();
  run.meter = meter.stop();
  for (std::size_t e = 1; e < ends.size(); ++e) {
    run.rates.push_back(1 / (ends[e] - ends[e - 1]));
    run.step_ms.push_back(1e3 * options.batch / run.result.history[e].images_per_s);
  }
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

DType product_dtype(const std::string& amp) {
  if (amp == "fp16") return DType::FP16;
  if (amp == "bf16") return DType::BF16;
  throw_as<InvalidArgument>("--peak: --amp is {}, expected fp16 or bf16", amp);
}

/// Rows of the peak, and of the step's products over the step's time as a rate and as its share.
void add_peak(const Options& options, const Run& run, Report& report) {
  std::vector<std::int64_t> sizes = {28 * 28};
  sizes.insert(sizes.end(), options.widths.begin(), options.widths.end());
  sizes.push_back(10);
  const double flops = step_flops(options.batch, sizes);
  std::vector<double> rates;
  for (const double ms : run.step_ms) rates.push_back(flops / ms * 1e-9);
  const Summary rate = summarize(rates);
  report.add(make_row(options.name + ".products", "TFLOP/s", rate));
  for (const auto& [operands, suffix] :
       {std::pair(Operands::UNIFORM, ""), std::pair(Operands::CONSTANT, "_of_constants")}) {
    GpuMeter meter(options.device);
    const MatmulPeak peak =
        measure_matmul_peak(options.device, product_dtype(options.amp), operands);
    const std::string name = std::string("matmul_peak") + suffix;
    report.set_env(name + ".shape", peak.shape);
    report.set_env(name + ".clock_and_power", meter.stop());
    report.add(make_row(name, "TFLOP/s", peak.tflops));
    Summary share = rate;
    share.median /= peak.tflops.median, share.spread /= peak.tflops.median;
    report.add(make_row(std::string("flops_share") + suffix, "of " + name, share));
  }
}

void measure(const Options& options, Report& report) {
  if (options.peak) product_dtype(options.amp);  // or it is refused before the training
  const Run run = run_epochs(options);
  Row row = make_row(options.name, "epochs/s", summarize(run.rates));
  if (!options.python.empty()) set_torch_peer(row, options);
  report.set_env(options.name + ".compile_ms", fmt::format("{:.0f}", run.compile_ms));
  report.set_env(options.name + ".best_top1", fmt::format("{:.4f}", run.result.best_top1));
  report.set_env(options.name + ".weights_sha256", run.result.weights_sha256);
  report.set_env(options.name + ".clock_and_power", run.meter);
  report.add(std::move(row));
  report.add(make_row(options.name + ".step", "ms", summarize(run.step_ms)));
  if (options.peak) add_peak(options, run, report);
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
  app.add_flag("--peak", options.peak, "measure large products too: a step's share of their rate");
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
