// SPDX-License-Identifier: Apache-2.0
// bench_augment: images/s on one core through chains of transforms, from UINT8 pixels in memory to
// normalised FP32 in the batch. With --python, torchvision does the same to PIL images in the same
// run, in turns.
#include <CLI/CLI.hpp>
#include <algorithm>
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

/// What the chains of a group start from: the peer is told shape and number.
struct BenchSet {
  const char* name;
  Shape shape;  // [H, W, C]
  int num_images;
  NormMode normalization;
};
constexpr int kDigits = 0, kSmall = 1, kPhotos = 2;

std::vector<BenchSet> bench_sets() {
  return {{"digits", {28, 28, 1}, 2000, NormMode::MNIST},
          {"small", {32, 32, 3}, 2000, NormMode::CIFAR},
          {"photos", {375, 500, 3}, 48, NormMode::IMAGENET}};
}

struct BenchChain {
  const char* name;  // the peer knows it by the same
  int set;
  std::vector<Transform> transforms;
};

std::vector<BenchChain> bench_chains() {
  const Pad pad(2);
  const RandomCrop crop(28);
  const RandomRotation rotation(20.0f, 0);
  const RandomScale scale(0.8f, 1.2f);
  const RandomErasing erasing(0.5f);
  const RandomResizedCrop region(224);
  const RandomHorizontalFlip flip;
  const ColorJitter jitter(0.2f, 0.2f, 0.2f, 0.1f);
  const CenterCrop center(224);
  return {{"article", kDigits, {pad, crop, rotation, scale, erasing}},
          {"normalize", kDigits, {}},
          {"pad_crop", kDigits, {pad, crop}},
          {"rotation", kDigits, {rotation}},
          {"scale", kDigits, {scale}},
          {"erasing", kDigits, {erasing}},
          {"cifar_crop_flip", kSmall, {Pad(4), RandomCrop(32), flip}},
          {"cifar_trivial", kSmall, {Pad(4), RandomCrop(32), flip, TrivialAugment()}},
          {"vgg", kPhotos, {region, flip, jitter, RandomErasing(0.25f)}},
          {"crop_flip", kPhotos, {region, flip}},
          {"fast_crop_flip", kPhotos, {FastRandomResizedCrop(224), flip}},
          {"val", kPhotos, {Resize(256), center}},
          {"center", kPhotos, {center}},
          {"center_jitter", kPhotos, {center, jitter}},
          {"center_affine", kPhotos, {center, RandomAffine(20, {0.1f, 0.1f}, {0.8f, 1.2f})}},
          {"center_blur", kPhotos, {center, GaussianBlur(0.1f, 2.0f, 13)}},
          {"center_noise", kPhotos, {center, GaussianNoise()}},
          {"center_rand", kPhotos, {center, RandAugment()}}};
}

/// Digits of the procedural set, or colours that are smooth in the large and noisy in the small.
std::vector<std::uint8_t> make_images(const BenchSet& set) {
  const std::size_t bytes = std::size_t(set.shape.num_elements());
  std::vector<std::uint8_t> images(bytes * std::size_t(set.num_images));
  if (set.shape[2] == 1) {
    const auto digits = make_procedural_digits("train", set.num_images, 0);
    std::int32_t label = 0;
    for (int i = 0; i < set.num_images; ++i) {
      std::byte* out[] = {reinterpret_cast<std::byte*>(images.data() + std::size_t(i) * bytes),
                          reinterpret_cast<std::byte*>(&label)};
      digits->read(i, out);
    }
    return images;
  }
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::size_t place = i % bytes, x = place / 3 % std::size_t(set.shape[1]);
    const std::size_t y = place / 3 / std::size_t(set.shape[1]);
    const double wave = std::sin(0.03 * double(x + 40 * (i / bytes))) + std::sin(0.05 * double(y)) +
                        std::sin(0.02 * double(x + y) + double(place % 3));
    const std::uint32_t noise = std::uint32_t(i) * 2654435761u >> 27;
    images[i] = std::uint8_t(128 + 36 * wave + double(noise) - 16);
  }
  return images;
}

/// One measurement: rate, and what the pixels look like afterwards.
struct Sample {
  double images_per_s = 0, mean = 0, std = 0;
};

/// Images in buffers as the loader's workers have them.
class OurChain {
 public:
  OurChain(const BenchChain& chain, const BenchSet& set, const std::vector<std::uint8_t>& images)
      : chain_({.transforms = chain.transforms, .normalization = set.normalization}, set.shape,
               DType::FP32),
        num_images_(set.num_images),
        stride_((chain_.input_buffer_bytes() + 63) / 64 * 64),
        inputs_(stride_ * std::size_t(num_images_)),
        scratch_(chain_.scratch_bytes()),
        pixels_(chain_.output_bytes() / sizeof(float)),
        outputs_(pixels_ * std::size_t(num_images_)) {
    const std::size_t bytes = std::size_t(set.shape.num_elements());
    for (std::size_t i = 0; i < std::size_t(num_images_); ++i) {
      std::copy_n(images.data() + i * bytes, bytes, inputs_.data() + i * stride_);
    }
  }

  /// Passes over the images for at least `seconds`.
  Sample measure(double seconds) {
    const Stopwatch watch;
    std::int64_t images = 0;
    do {
      for (int i = 0; i < num_images_; ++i) {
        const DrawAddress address{0, DrawPurpose::AUGMENT, std::uint64_t(epoch_), std::uint64_t(i)};
        chain_.run(inputs_.data() + std::size_t(i) * stride_,
                   outputs_.data() + std::size_t(i) * pixels_, address, scratch_.data());
      }
      ++epoch_;
      images += num_images_;
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
  int num_images_;
  std::size_t stride_;
  std::vector<std::uint8_t> inputs_;
  std::vector<std::byte> scratch_;
  std::size_t pixels_;
  std::vector<float> outputs_;
  std::int64_t epoch_ = 0;
};

/// torchvision in a process of its own, on the same images.
class TorchvisionPeer {
 public:
  TorchvisionPeer(const std::string& python, const std::string& images_path, const BenchSet& set)
      : process_(python,
                 {bench::find_peer("augment_torch.py"), images_path, std::to_string(set.shape[0]),
                  std::to_string(set.shape[1]), std::to_string(set.shape[2])}),
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

/// The pixels for the peer, in a file that goes with the object.
class ImageFile {
 public:
  explicit ImageFile(const std::vector<std::uint8_t>& images)
      : path_(std::filesystem::temp_directory_path() /
              ("bench_augment_" + std::to_string(now_ns()) + ".u8")) {
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(images.data()), std::streamsize(images.size()));
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
  std::string python, json, only;
  int pairs = 7;
  double seconds = 0.3;
};

/// Measurements in turns. The error is how far mean and deviation of the pixels lie from the
/// peer's, in deviations: both draw at random, so they agree statistically only.
bench::Row measure_chain(const BenchChain& chain, const BenchSet& set,
                         const std::vector<std::uint8_t>& images, TorchvisionPeer* peer,
                         const Options& options) {
  OurChain ours(chain, set, images);
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
  CLI::App app(
      "Images/s on one core through chains of transforms, FP32 out: 28x28 digits, 32x32 colours, "
      "375x500 photos cut to 224");
  app.add_option("--python", options.python,
                 "Python with torchvision: measures the peer in the same run");
  app.add_option("--json", options.json, "write {env, command, rows} here; - is standard output");
  app.add_option("--only", options.only, "the chain of this name alone");
  app.add_option("--pairs", options.pairs, "measurements of each side")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds, "length of a measurement")
      ->check(CLI::Range(0.001, 60.0));
  CLI11_PARSE(app, argc, argv);
  bench::Report report(argc, argv);
  const std::vector<BenchSet> sets = bench_sets();
  for (int i = 0; i < int(sets.size()); ++i) {
    const std::vector<std::uint8_t> images = make_images(sets[std::size_t(i)]);
    std::unique_ptr<ImageFile> file;
    std::unique_ptr<TorchvisionPeer> peer;
    if (!options.python.empty()) {
      file = std::make_unique<ImageFile>(images);
      peer = std::make_unique<TorchvisionPeer>(options.python, file->path(), sets[std::size_t(i)]);
    }
    for (const BenchChain& chain : bench_chains()) {
      if (chain.set != i || (!options.only.empty() && options.only != chain.name)) continue;
      report.add(measure_chain(chain, sets[std::size_t(i)], images, peer.get(), options));
    }
  }
  report.write_json(options.json);
  return 0;
}

}  // namespace
}  // namespace tr

int main(int argc, char** argv) { return tr::bench::run_main(tr::run, argc, argv); }
