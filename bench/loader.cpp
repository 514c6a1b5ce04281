// SPDX-License-Identifier: Apache-2.0
// bench_loader: images/s of the host path of a set in memory by number of workers, from UINT8
// pixels through the article's chain to normalised batches in slots. The consumer gives each batch
// back at once, so that the threads are what is measured. Printed beside each rate: where the
// threads' time went and how long the consumer waited. A row's error is 0 if the batches of its
// first pass are byte for byte those of one worker, else 1.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench_report.h"
#include "core/clock.h"
#include "core/cpu_info.h"
#include "core/format.h"
#include "core/sha256.h"
#include "data/loader.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "renaissance/tensor/tensor.h"

namespace tr::bench {
namespace {

struct Options {
  std::string json, dtype = "fp16";
  std::vector<int> workers;
  int images = 60000, batch = 200, slots = 12, readers = 0, samples = 5;
  double seconds = 0.4;
  bool bind = false;
};

data::LoaderConfig loader_config(const Options& options, std::shared_ptr<const Dataset> images,
                                 int workers) {
  data::LoaderConfig config;
  config.train = {.dataset = std::move(images),
                  .transforms = {.transforms = {Pad(2), RandomCrop(28), RandomRotation(20.0f, 0),
                                                RandomScale(0.8f, 1.2f), RandomErasing(0.5f)},
                                 .normalization = NormMode::MNIST},
                  .batch_size = options.batch,
                  .global_batch = options.batch,
                  .shuffle = true};
  config.image_dtype = options.dtype == "fp32" ? DType::FP32 : DType::FP16;
  config.seed = 1;
  config.num_workers = workers;
  config.num_readers = options.readers;
  config.num_slots = options.slots;
  config.bind_threads = options.bind;
  return config;
}

std::optional<data::StreamPhase> endless(std::int64_t i) {
  return data::StreamPhase{data::Split::TRAIN, i};
}

/// Hash of the first pass.
std::string first_pass(const data::LoaderConfig& config) {
  data::Loader loader(config, [](std::int64_t i) { return i == 0 ? endless(i) : std::nullopt; });
  Sha256 hash;
  const std::size_t pixels = 784 * size_of(config.image_dtype);
  while (const data::Batch* b = loader.next()) {
    const auto size = std::size_t(b->size);
    hash.update({static_cast<const std::byte*>(b->fields.at("image")), size * pixels});
    hash.update({static_cast<const std::byte*>(b->fields.at("label")), size * 4});
    loader.release(*b);
  }
  return hash.hex();
}

/// The digits in tensors: drawing them takes longer than transforming them.
std::shared_ptr<const Dataset> digits_in_memory(int count) {
  const auto drawn = make_procedural_digits("train", count, 0);
  Tensor images({count, 28, 28, 1}, DType::UINT8), labels({count}, DType::INT32);
  for (int i = 0; i < count; ++i) {
    std::byte* out[] = {reinterpret_cast<std::byte*>(images.data<std::uint8_t>()) + i * 784,
                        reinterpret_cast<std::byte*>(labels.data<std::int32_t>() + i)};
    drawn->read(i, out);
  }
  return make_tensor_dataset({{"image", images}, {"label", labels}}, 10);
}

void measure(const data::LoaderConfig& config, const Options& options, const std::string& expected,
             Report& report) {
  std::vector<double> rates;
  data::LoaderStats all;
  data::Loader loader(config, endless);
  for (int i = 0; i < 100; ++i) loader.release(*loader.next());  // warm-up
  loader.stats();
  double seconds = 0;
  for (int i = 0; i < options.samples; ++i) {
    const Stopwatch watch;
    std::int64_t images = 0;
    while (watch.seconds() < options.seconds) {
      const data::Batch* batch = loader.next();
      images += batch->size;
      loader.release(*batch);
    }
    seconds += watch.seconds();
    rates.push_back(double(images) / watch.seconds());
    all.add(loader.stats());
  }
  Row row = make_row(fmt::format("workers_{}", config.num_workers), "images/s", summarize(rates));
  row.error = first_pass(config) == expected ? 0 : 1;
  std::string stages;
  for (std::size_t s = 0; s < data::kNumStages; ++s) {
    stages += fmt::format("{} {:.0f} ns, ", data::stage_name(data::Stage(s)),
                          all.stage_ms[s] * 1e6 / double(all.samples));
  }
  stages += fmt::format("waited {:.0f} % of the time", all.wait_ms / seconds / 10);
  std::fprintf(stderr, "  an image: %s\n", stages.c_str());
  report.set_env(row.name, stages);
  report.add(std::move(row));
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Images/s of the host path by number of workers"};
  app.add_option("--json", options.json, "write {env, command, rows} here; - is standard output");
  app.add_option("--workers", options.workers, "rows: 1, 2, 4 ... the cores, if not given")
      ->delimiter(',');
  app.add_option("--images", options.images, "of the set")->check(CLI::Range(1, 1000000));
  app.add_option("--batch", options.batch, "")->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--slots", options.slots, "")->capture_default_str()->check(CLI::Range(2, 64));
  app.add_option("--readers", options.readers, "threads that only read")->check(CLI::Range(0, 64));
  app.add_option("--dtype", options.dtype, "fp16 or fp32")->check(CLI::IsMember({"fp16", "fp32"}));
  app.add_option("--samples", options.samples, "measurements a row")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds, "length of one")->check(CLI::Range(0.001, 60.0));
  app.add_flag("--bind", options.bind, "each thread to a core of its own");
  CLI11_PARSE(app, argc, argv);
  if (options.workers.empty()) {
    const int cores = default_num_threads();
    for (int w = 1; w < cores; w *= 2) options.workers.push_back(w);
    options.workers.push_back(cores);
  }
  Report report(argc, argv);
  const auto digits = digits_in_memory(options.images);
  const std::string expected = first_pass(loader_config(options, digits, 1));
  report.set_env("first_pass_sha256", expected);
  for (const int workers : options.workers)
    measure(loader_config(options, digits, workers), options, expected, report);
  report.write_json(options.json);
  return 0;
}

}  // namespace
}  // namespace tr::bench

int main(int argc, char** argv) { return tr::bench::run_main(tr::bench::run, argc, argv); }
