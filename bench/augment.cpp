// SPDX-License-Identifier: Apache-2.0
// bench_augment: images/s on one core through chains of transforms, from UINT8 pixels in memory to
// normalised FP32 in the batch. With --python, torchvision does the same to PIL images in the same
// run, in turns.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench_report.h"
#include "core/clock.h"
#include "data/transforms/chain.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"

namespace tr {
namespace {

constexpr int kNumImages = 2000;
constexpr std::size_t kPixels = 784;

struct BenchChain {
  const char* name;  // the peer knows it by the same
  std::vector<Transform> transforms;
};

std::vector<BenchChain> bench_chains() {
  const Pad pad(2);
  const RandomCrop crop(28);
  const RandomRotation rotation(20.0f, 0);
  const RandomScale scale(0.8f, 1.2f);
  const RandomErasing erasing(0.5f);
  return {{"article", {pad, crop, rotation, scale, erasing}},
          {"normalize", {}},
          {"pad_crop", {pad, crop}},
          {"rotation", {rotation}},
          {"scale", {scale}},
          {"erasing", {erasing}}};
}

/// One measurement: rate, and what the pixels look like afterwards.
struct Sample {
  double images_per_s = 0, mean = 0, std = 0;
};

/// Digits in buffers as the loader's workers have them.
class OurChain {
 public:
  OurChain(const BenchChain& chain, const Dataset& digits)
      : chain_({.transforms = chain.transforms, .normalization = NormMode::MNIST}, {28, 28, 1},
               DType::FP32),
        stride_((chain_.input_buffer_bytes() + 63) / 64 * 64),
        inputs_(stride_ * kNumImages),
        scratch_(chain_.scratch_bytes()),
        outputs_(kPixels * kNumImages) {
    std::int32_t label = 0;
    for (int i = 0; i < kNumImages; ++i) {
      std::byte* out[] = {reinterpret_cast<std::byte*>(inputs_.data() + std::size_t(i) * stride_),
                          reinterpret_cast<std::byte*>(&label)};
      digits.read(i, out);
    }
  }

  /// Passes over the images for at least `seconds`.
  Sample measure(double seconds) {
    const Stopwatch watch;
    std::int64_t images = 0;
    do {
      for (int i = 0; i < kNumImages; ++i) {
        const DrawAddress address{0, DrawPurpose::AUGMENT, std::uint64_t(epoch_), std::uint64_t(i)};
        chain_.run(inputs_.data() + std::size_t(i) * stride_,
                   outputs_.data() + std::size_t(i) * kPixels, address, scratch_.data());
      }
      ++epoch_;
      images += kNumImages;
    } while (watch.seconds() < seconds);
    Sample sample{.images_per_s = double(images) / watch.seconds()};
    double sum = 0, sum2 = 0;
    for (const float v : outputs_) {
      sum += v;
      sum2 += double(v) * v;
    }
    sample.mean = sum / double(outputs_.size());
    sample.std = std::sqrt(sum2 / double(outputs_.size()) - sample.mean * sample.mean);
    return sample;
  }

 private:
  data::PixelChain chain_;
  std::size_t stride_;
  std::vector<std::uint8_t> inputs_;
  std::vector<std::byte> scratch_;
  std::vector<float> outputs_;
  std::int64_t epoch_ = 0;
};

/// torchvision in a process of its own, on the same images.
class TorchvisionPeer {
 public:
  TorchvisionPeer(const std::string& python, const std::string& images_path)
      : process_(python, {bench::find_peer("augment_torch.py"), images_path}),
        name_(process_.ask("name")) {}
  const std::string& name() const { return name_; }
  Sample measure(const std::string& chain, double seconds) {
    std::istringstream answer(process_.ask(chain + " " + std::to_string(seconds)));
    Sample sample;
    if (!(answer >> sample.images_per_s >> sample.mean >> sample.std)) {
      throw DataError("bench_augment: the peer's answer to \"" + chain + "\" is not three numbers");
    }
    return sample;
  }

 private:
  bench::PeerProcess process_;
  std::string name_;
};

/// The digits' pixels for the peer, in a file that goes with the object.
class ImageFile {
 public:
  explicit ImageFile(const Dataset& digits)
      : path_(std::filesystem::temp_directory_path() /
              ("bench_augment_" + std::to_string(now_ns()) + ".u8")) {
    std::ofstream file(path_, std::ios::binary);
    std::vector<char> pixels(kPixels);
    std::int32_t label = 0;
    for (int i = 0; i < kNumImages; ++i) {
      std::byte* out[] = {reinterpret_cast<std::byte*>(pixels.data()),
                          reinterpret_cast<std::byte*>(&label)};
      digits.read(i, out);
      file.write(pixels.data(), std::streamsize(pixels.size()));
    }
    if (!file) throw DataError("bench_augment: " + path_.string() + " cannot be written");
  }
  ~ImageFile() {
    std::error_code error;  // a leftover temporary file is no reason to end the program
    std::filesystem::remove(path_, error);
  }
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct Options {
  std::string python, json;
  int pairs = 7;
  double seconds = 0.3;
};

/// Measurements in turns. The error is how far mean and deviation of the pixels lie from the
/// peer's, in deviations: both draw at random, so they agree statistically only.
bench::Row measure_chain(const BenchChain& chain, const Dataset& digits, TorchvisionPeer* peer,
                         const Options& options) {
  OurChain ours(chain, digits);
  ours.measure(0.05);  // warm-up
  std::vector<double> our_rates, peer_rates;
  double error = 0;
  for (int i = 0; i < options.pairs; ++i) {
    const Sample mine = ours.measure(options.seconds);
    our_rates.push_back(mine.images_per_s);
    if (peer == nullptr) continue;
    const Sample theirs = peer->measure(chain.name, options.seconds);
    peer_rates.push_back(theirs.images_per_s);
    error = std::max(
        error,
        std::max(std::abs(mine.mean - theirs.mean), std::abs(mine.std - theirs.std)) / theirs.std);
  }
  bench::Row row = bench::make_row(chain.name, "images/s/core", bench::summarize(our_rates));
  if (peer != nullptr) {
    bench::set_peer(row, peer->name(), bench::summarize(peer_rates), /*less_is_better=*/false);
    row.error = error;
  }
  return row;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Images/s on one core through chains of transforms (28x28 digits, FP32 out)");
  app.add_option("--python", options.python,
                 "Python with torchvision: measures the peer in the same run");
  app.add_option("--json", options.json, "write {env, command, rows} here; - is standard output");
  app.add_option("--pairs", options.pairs, "measurements of each side")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds, "length of a measurement")
      ->check(CLI::Range(0.001, 60.0));
  CLI11_PARSE(app, argc, argv);
  bench::Report report(argc, argv);
  const auto digits = make_procedural_digits("train", kNumImages, 0);
  std::unique_ptr<ImageFile> file;
  std::unique_ptr<TorchvisionPeer> peer;
  if (!options.python.empty()) {
    file = std::make_unique<ImageFile>(*digits);
    peer = std::make_unique<TorchvisionPeer>(options.python, file->path());
  }
  for (const BenchChain& chain : bench_chains())
    report.add(measure_chain(chain, *digits, peer.get(), options));
  report.write_json(options.json);
  return 0;
}

}  // namespace
}  // namespace tr

int main(int argc, char** argv) {
  try {
    return tr::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_augment: %s\n", error.what());
    return 1;
  }
}
