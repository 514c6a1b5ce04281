// SPDX-License-Identifier: Apache-2.0
// bench_pictures: images/s of the whole way of a photo, from JPEG files in the page cache through
// the loader to normalised batches in slots. Rows of one worker count images per second of
// processor time, all threads of the process together, so that neighbours on the machine matter
// little; peers take turns with them in the same run: libjpeg-turbo's full decode of the same files
// from memory, and with --python torchvision. Rows of several workers count by the clock, beside as
// many times one worker; libjpeg-turbo's rows show what the machine itself gives that many threads.
#include <time.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench_report.h"
#include "core/clock.h"
#include "core/format.h"
#include "core/input_file.h"
#include "data/loader.h"
#include "photos.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"

namespace tr::bench {
namespace {

struct Options {
  std::string photos, python, json, only, dtype = "fp32";
  std::vector<int> workers;
  int batch = 64, slots = 4, readers = 0, turns = 9;
  double seconds = 1, timeout = 30;
  bool bind = false, forget_rows = false;
};

struct PictureChain {
  const char* name;
  std::vector<Transform> transforms;
};

std::vector<PictureChain> picture_chains() {
  const RandomResizedCrop region(224);
  const RandomHorizontalFlip flip;
  return {{"vgg", {region, flip, ColorJitter(0.2f, 0.2f, 0.2f, 0.1f), RandomErasing(0.25f)}},
          {"crop_flip", {region, flip}},
          {"val", {Resize(256), CenterCrop(224)}}};
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

struct Rates {
  double per_cpu_second = 0, per_second = 0;
};

/// A loader whose slots are full between measurements: what is made while one runs is then just
/// what was taken out.
class PictureFeed {
 public:
  PictureFeed(const PictureChain& chain, std::shared_ptr<const Dataset> set, int workers,
              const Options& options)
      : batch_(std::min<std::int64_t>(options.batch, set->num_samples())),
        slots_(options.slots),
        loader_(config_of(chain, std::move(set), workers, options), endless) {
    take(2 * slots_);  // buffers grow, and most of the pictures are seen
    stats_ = {};
  }

  /// The rate over some `seconds`, by whole batches.
  Rates measure(double seconds) {
    const Stopwatch watch;
    const double cpu_start = processor_seconds();
    std::int64_t batches = 0;
    for (; watch.seconds() < seconds; batches += slots_) take(slots_);
    const double images = double(batches * batch_);
    return {images / (processor_seconds() - cpu_start), images / watch.seconds()};
  }

  /// "read 0.010 ms, decode 0.681 ms, ...": a thread's time for an image by stage.
  std::string stages() const {
    std::string text;
    for (std::size_t s = 0; s < data::kNumStages; ++s) {
      text += fmt::format("{}{} {:.3f} ms", s == 0 ? "" : ", ", data::stage_name(data::Stage(s)),
                          stats_.stage_ms[s] / double(stats_.samples));
    }
    return text;
  }

 private:
  static std::optional<data::StreamPhase> endless(std::int64_t i) {
    return data::StreamPhase{data::Split::TRAIN, i};
  }

  data::LoaderConfig config_of(const PictureChain& chain, std::shared_ptr<const Dataset> set,
                               int workers, const Options& options) const {
    data::LoaderConfig config;
    config.train = {
        .dataset = std::move(set),
        .transforms = {.transforms = chain.transforms, .normalization = NormMode::IMAGENET},
        .batch_size = batch_,
        .global_batch = batch_,
        .shuffle = true,
        .drop_last = true};
    config.image_dtype = options.dtype == "fp32" ? DType::FP32 : DType::FP16;
    config.seed = 1;
    config.num_workers = workers;
    config.num_readers = options.readers;
    config.num_slots = options.slots;
    config.bind_threads = options.bind;
    config.decode.remember_rows = !options.forget_rows;
    return config;
  }

  /// Takes batches out and waits until all slots are full again.
  void take(std::int64_t batches) {
    for (std::int64_t i = 0; i < batches; ++i) loader_.release(*loader_.next());
    taken_ += batches;
    for (;;) {
      const data::LoaderStats now = loader_.stats();
      made_ += now.samples;
      stats_.add(now);
      if (made_ >= (taken_ + slots_) * batch_) return;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  std::int64_t batch_, slots_, taken_ = 0, made_ = 0;
  data::LoaderStats stats_;
  data::Loader loader_;
};

/// The files' bytes, and libjpeg-turbo on one thread or more.
class LibjpegPeer {
 public:
  explicit LibjpegPeer(const std::string& folder) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files_.push_back(read_bytes(entry.path().string()));
    }
  }

  Rates measure(double seconds, int threads) const {
    std::atomic<std::int64_t> pictures{0};
    const Stopwatch watch;
    const double cpu_start = processor_seconds();
    {
      std::vector<std::jthread> running;
      for (int t = 0; t < threads; ++t) {
        running.emplace_back([&, t] {
          PlainLibjpeg decoder;
          std::size_t at = std::size_t(t) * files_.size() / std::size_t(threads);
          for (; watch.seconds() < seconds; ++at, ++pictures) {
            decoder.decode(files_[at % files_.size()]);
          }
        });
      }
    }
    const double count = double(pictures);
    return {count / (processor_seconds() - cpu_start), count / watch.seconds()};
  }

 private:
  std::vector<std::vector<std::byte>> files_;
};

class TorchPeer {
 public:
  TorchPeer(const Options& options, std::string way)
      : way_(std::move(way)),
        process_(options.python, {find_peer("pictures_torch.py"), options.photos}),
        name_(process_.ask("name " + way_)) {}
  const std::string& way() const { return way_; }
  const std::string& name() const { return name_; }
  Rates measure(const std::string& chain) {
    std::istringstream answer(process_.ask(chain + " " + way_));
    Rates rates;
    answer >> rates.per_cpu_second >> rates.per_second;
    return rates;
  }

 private:
  std::string way_;
  PeerProcess process_;
  std::string name_;
};

/// What is measured, and those beside it.
struct Sides {
  std::shared_ptr<const Dataset> set;
  LibjpegPeer libjpeg;
  std::vector<std::unique_ptr<TorchPeer>> torch;
};

/// A row for each peer: one worker of ours and one thread of theirs, in turns.
void measure_core(Report& report, const PictureChain& chain, const Sides& sides,
                  const Options& options) {
  PictureFeed feed(chain, sides.set, 1, options);
  const std::string name = chain.name;
  const auto compare = [&](const std::string& row_name, const std::string& peer,
                           const auto& measure_peer, int turns) {
    std::vector<double> ours, theirs;
    for (int i = 0; i < turns; ++i) {
      ours.push_back(feed.measure(options.seconds).per_cpu_second);
      theirs.push_back(measure_peer().per_cpu_second);
    }
    Row row = make_row(row_name, "images/s/core", summarize(ours));
    set_peer(row, peer, summarize(theirs), false);
    report.add(std::move(row));
  };
  compare(
      name, "libjpeg-turbo, full decode", [&] { return sides.libjpeg.measure(options.seconds, 1); },
      options.turns);
  for (const auto& peer : sides.torch) {
    compare(
        name + ", " + peer->way(), peer->name(), [&] { return peer->measure(name); },
        options.turns);
  }
  std::fprintf(stderr, "  an image: %s\n", feed.stages().c_str());
  report.set_env(name + " by stage", feed.stages());
}

/// `workers` beside as many times one, in turns.
void measure_workers(Report& report, const Sides& sides, int workers, const Options& options) {
  const PictureChain chain = picture_chains().front();
  PictureFeed one(chain, sides.set, 1, options), many(chain, sides.set, workers, options);
  std::vector<double> rates, single, decodes, single_decodes;
  for (int i = 0; i < options.turns; ++i) {
    rates.push_back(many.measure(options.seconds).per_second);
    single.push_back(workers * one.measure(options.seconds).per_second);
    decodes.push_back(sides.libjpeg.measure(options.seconds, workers).per_second);
    single_decodes.push_back(workers * sides.libjpeg.measure(options.seconds, 1).per_second);
  }
  Row row =
      make_row(fmt::format("{}, workers_{}", chain.name, workers), "images/s", summarize(rates));
  set_peer(row, fmt::format("{} times one worker", workers), summarize(single), false);
  report.add(std::move(row));
  Row machine =
      make_row(fmt::format("libjpeg-turbo, threads_{}", workers), "images/s", summarize(decodes));
  set_peer(machine, fmt::format("{} times one thread", workers), summarize(single_decodes), false);
  report.add(std::move(machine));
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Images/s from JPEG files to normalised batches, on one core and on several");
  app.add_option("--photos", options.photos,
                 "folder of a folder a class; default: build/data/imagenet-sample/train");
  app.add_option("--python", options.python, "Python with torchvision and Pillow: peers too");
  app.add_option("--json", options.json, "write {env, command, rows} here; - is standard output");
  app.add_option("--only", options.only, "the chain of this name alone");
  app.add_option("--workers", options.workers, "rows of so many workers of the vgg chain: 2,4,8,16")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--batch", options.batch, "")->capture_default_str()->check(CLI::Range(1, 4096));
  app.add_option("--slots", options.slots, "")->capture_default_str()->check(CLI::Range(2, 64));
  app.add_option("--readers", options.readers, "threads that only read; -1: the loader chooses")
      ->check(CLI::Range(-1, 64));
  app.add_option("--dtype", options.dtype, "fp16 or fp32")->check(CLI::IsMember({"fp16", "fp32"}));
  app.add_option("--turns", options.turns, "measurements of each side")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds, "length of one")->check(CLI::Range(0.001, 60.0));
  app.add_option("--read-timeout", options.timeout, "of a file in seconds; 0: none");
  app.add_flag(
      "--first-epoch", options.forget_rows,
      "rows' places in the files are not remembered, so that each epoch is like the first");
  app.add_flag("--bind", options.bind, "each thread to a core of its own");
  CLI11_PARSE(app, argc, argv);
  Report report(argc, argv);
  if (options.photos.empty()) options.photos = find_photos();
  if (options.photos.empty()) {
    std::fprintf(stderr, "bench_pictures: no photos in build/data; give a folder with --photos\n");
    return 0;
  }
  Sides sides{open_dataset("folder", options.photos, {.read_timeout_s = options.timeout}).train,
              LibjpegPeer(options.photos),
              {}};
  report.set_env("photos", std::to_string(sides.set->num_samples()));
  if (!options.python.empty()) {
    for (const char* way : {"pil", "io"})
      sides.torch.push_back(std::make_unique<TorchPeer>(options, way));
  }
  for (const PictureChain& chain : picture_chains()) {
    if (!options.only.empty() && options.only != chain.name) continue;
    measure_core(report, chain, sides, options);
  }
  for (const int workers : options.workers) {
    measure_workers(report, sides, workers, options);
  }
  report.write_json(options.json);
  return 0;
}

}  // namespace
}  // namespace tr::bench

int main(int argc, char** argv) { return tr::bench::run_main(tr::bench::run, argc, argv); }
