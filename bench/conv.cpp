// SPDX-License-Identifier: Apache-2.0
// Training of convolutional networks on a GPU: rows vgg16bn (the second article's) and resnet50,
// images/s. The pictures are noise that lies in the device's memory; the step is the one that a
// program trains with: feed, finite check, optimizer, metrics. The learning rate is tiny, so that
// gradients stay alive: on few pictures a network soon fits them, power falls and all looks faster.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cuda/check.h"
#include "bench_report.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/format.h"
#include "core/log.h"
#include "gpu_meter.h"
#include "renaissance.h"
#include "zoo/models.h"

namespace tr::bench {
namespace {

constexpr std::int64_t kSide = 224, kClasses = 1000;

struct Options {
  std::vector<std::string> rows = {"vgg16bn", "resnet50"};
  std::string json, python, amp = "fp16", peer_mode = "default";
  int batch = 256, epochs = 8, steps = 20, device = 0, seed = 1;
  bool profile = false;
  std::vector<std::string> set;
};

/// Pictures of noise: every byte from its place alone.
class Noise final : public Dataset {
 public:
  explicit Noise(std::int64_t count) : count_(count) {}
  std::int64_t num_samples() const override { return count_; }
  std::vector<Field> fields() const override {
    return {{"image", {Shape{kSide, kSide, 3}, DType::UINT8}}, {"label", {Shape{}, DType::INT32}}};
  }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    std::uint64_t state = std::uint64_t(id) * 0x9e3779b97f4a7c15u + 1;
    for (std::int64_t i = 0; i < kSide * kSide * 3; i += 8) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      std::memcpy(out[0] + i, &state, 8);
    }
    const auto label = std::int32_t(id % kClasses);
    std::memcpy(out[1], &label, sizeof(label));
  }
  int num_classes() const override { return int(kClasses); }
  std::string name() const override { return "noise"; }

 private:
  std::int64_t count_;
};

/// The article's VGG16: torchvision's vgg16_bn without the convolutions' biases.
BluePrint article_vgg16bn() {
  std::vector<BluePrint> layers;
  for (const auto& [channels, convolutions] :
       {std::pair{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    layers.push_back(repeat(cbr(channels, 3, 1, 1), convolutions));
    layers.push_back(maxpool(2, 2, 0));
  }
  layers.push_back(flatten());
  for (const int width : {4096, 4096}) {
    layers.insert(layers.end(), {fc(width, true), relu(), dropout(0.5f)});
  }
  layers.push_back(fc(kClasses, true));
  return seq(layers);
}

BluePrint network(const std::string& row) {
  if (row == "vgg16bn") return article_vgg16bn();
  if (row == "resnet50") return zoo::resnet50();
  throw_as<InvalidArgument>("--rows has {}, expected vgg16bn or resnet50", row);
}

struct Run {
  std::vector<double> rates;  // images/s of each epoch but the first
  TrainingResult result;
  double compile_s = 0, first_epoch_s = 0, memory_gib = 0;
  DeviceMemory planned;
  std::string meter;
};

void print_profile(DeepLearningTask& task) {
  double sum = 0;
  for (const OpTime& op : task.profile()) {
    std::fprintf(stderr, "  %-48s %9.1f us\n", op.op.c_str(), op.seconds * 1e6);
    sum += op.seconds;
  }
  std::fprintf(stderr, "  %-48s %9.1f us\n", "sum", sum * 1e6);
}

double gib(std::int64_t bytes) { return double(bytes) / double(std::int64_t{1} << 30); }

double used_memory_gib() {
  std::size_t free = 0, total = 0;
  TR_CUDA(cudaMemGetInfo(&free, &total));
  return gib(std::int64_t(total - free));
}

Run train(const std::string& row, const Options& options) {
  Session session;
  session.global.manual_seed(std::uint64_t(options.seed))
      .global_batch_size(options.batch)
      .input_resolution(int(kSide))
      .use_gpu(std::to_string(options.device));
  session.preprocessor.normalization(NormMode::IMAGENET);
  const std::int64_t images = std::int64_t(options.batch) * options.steps;
  DeepLearningTask task;
  std::vector<double> ends;
  Callbacks callbacks;
  const Stopwatch start;
  std::unique_ptr<GpuMeter> meter;
  callbacks.on_epoch = [&](DeepLearningTask&, const EpochRecord&) {
    ends.push_back(start.seconds());
    if (!meter) meter = std::make_unique<GpuMeter>(options.device);  // the first is not counted
  };
  task.session(session)
      .dataset({std::make_shared<Noise>(images), nullptr})
      .set("amp", options.amp)
      .model(network(row))
      .loss(CrossEntropyLoss().label_smoothing(0.1f))
      .optimizer(SGD().momentum(0.9).weight_decay(1e-4).nesterov())
      .scheduler(ConstantLR().base_lr(1e-7))
      .total_epochs(options.epochs)
      .callbacks(callbacks);
  for (const std::string& pair : options.set) {
    const std::size_t at = pair.find('=');
    TR_CHECK(at != std::string::npos, "--set {}: expected KEY=VALUE", pair);
    task.set(pair.substr(0, at), pair.substr(at + 1));
  }
  task.compile(CompileInfo::NONE);
  Run run;
  run.compile_s = task.compile_ms() / 1000;
  if (options.profile) print_profile(task);
  const double begin = start.seconds();
  run.result = task.run();
  run.memory_gib = used_memory_gib();
  run.planned = task.memory();
  run.meter = meter ? meter->stop() : "one epoch only";
  run.first_epoch_s = ends.front() - begin;
  for (std::size_t e = 1; e < ends.size(); ++e) {
    run.rates.push_back(double(images) / (ends[e] - ends[e - 1]));
  }
  return run;
}

void set_torch_peer(Row& row, const Options& options) {
  PeerProcess peer(
      options.python,
      {find_peer("conv_torch.py"), "--batch", std::to_string(options.batch), "--mode",
       options.peer_mode, "--amp", options.amp, "--device", std::to_string(options.device)});
  const std::string name = peer.ask("name");
  const std::string answer =
      peer.ask(fmt::format("{} {} {}", row.name, options.epochs, options.steps), 1200);
  std::vector<double> rates;
  std::size_t at = 0;
  while (at < answer.size()) {
    std::size_t used = 0;
    rates.push_back(std::stod(answer.substr(at), &used));
    at += used + 1;
  }
  set_peer(row, name, summarize(rates), false);
}

void measure(const std::string& name, const Options& options, Report& report) {
  const Run run = train(name, options);
  Row row = make_row(name, "images/s", summarize(run.rates));
  if (!options.python.empty()) set_torch_peer(row, options);
  report.set_env(name + ".clock_and_power", run.meter);
  report.set_env(name + ".compile_s", fmt::format("{:.2f}", run.compile_s));
  report.set_env(name + ".first_epoch_s", fmt::format("{:.2f}", run.first_epoch_s));
  report.set_env(name + ".memory_gib", fmt::format("{:.2f}", run.memory_gib));
  report.set_env(name + ".arena_gib", fmt::format("{:.2f}", gib(run.planned.arena_bytes)));
  report.set_env(name + ".data_gib", fmt::format("{:.2f}", gib(run.planned.data_bytes)));
  report.set_env(name + ".weights_sha256", run.result.weights_sha256);
  std::fprintf(
      stderr,
      "%s: %s; compile %.2f s, %.2f GiB of the device in use: arena %.2f, pictures %.2f, the "
      "rest is context, libraries and graphs\n",
      name.c_str(), run.meter.c_str(), run.compile_s, run.memory_gib, gib(run.planned.arena_bytes),
      gib(run.planned.data_bytes));
  report.add(std::move(row));
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Training of convolutional networks on a GPU"};
  app.add_option("--rows", options.rows, "vgg16bn, resnet50")->delimiter(',');
  app.add_option("--json", options.json, "file for the rows, - for standard output");
  app.add_option("--python", options.python, "a Python with PyTorch: runs the peer too");
  app.add_option("--peer-mode", options.peer_mode, "eager, default or max-autotune")
      ->capture_default_str();
  app.add_option("--device", options.device, "which GPU");
  app.add_option("--amp", options.amp, "off, fp16 or bf16")->capture_default_str();
  app.add_option("--batch", options.batch, "")->capture_default_str();
  app.add_option("--steps", options.steps, "of an epoch")->capture_default_str();
  app.add_option("--epochs", options.epochs, "the first is not counted")->capture_default_str();
  app.add_option("--seed", options.seed, "")->capture_default_str();
  app.add_option("--set", options.set, "KEY=VALUE of docs/configuration.md");
  app.add_flag("--profile", options.profile, "print each op's time first");
  CLI11_PARSE(app, argc, argv);
  Report report(argc, argv);
  for (const std::string& row : options.rows) measure(row, options, report);
  report.write_json(options.json);
  return 0;
}

}  // namespace
}  // namespace tr::bench

int main(int argc, char** argv) { return tr::bench::run_main(tr::bench::run, argc, argv); }
