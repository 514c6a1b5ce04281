// SPDX-License-Identifier: Apache-2.0
// bench_decode: pictures/s on one core from JPEG files in memory, whole and in parts. The peer in
// the same process is libjpeg's plain full decode of the same files, in turns; with --python also
// torchvision.io and Pillow.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <sstream>

#include "bench_report.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/input_file.h"
#include "data/image_decode.h"
#include "photos.h"

namespace tr {
namespace {

namespace fs = std::filesystem;
using data::DecodeOptions;
using data::DecodeRequest;
using data::ImageDecoder;
using data::PixelRect;

constexpr int kTargetSide = 224;

struct Photo {
  std::string path;
  std::vector<std::byte> bytes;
  int width = 0, height = 0;
  PixelRect crop;  // as RandomResizedCrop draws it
};

PixelRect random_crop(int width, int height, std::mt19937& random) {
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * double(random()) / 4294967296.0;
  };
  for (int i = 0; i < 10; ++i) {
    const double area = uniform(0.08, 1) * width * height;
    const double ratio = std::exp(uniform(std::log(0.75), std::log(4.0 / 3)));
    const int w = int(std::lround(std::sqrt(area * ratio)));
    const int h = int(std::lround(std::sqrt(area / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const auto below = [&](int n) { return int(random() % unsigned(n + 1)); };
    return {below(width - w), below(height - h), w, h};
  }
  return {0, 0, width, height};
}

std::vector<Photo> load_photos(const std::string& folder) {
  std::vector<Photo> photos;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) photos.push_back({.path = entry.path().string()});
  }
  std::sort(photos.begin(), photos.end(),
            [](const Photo& a, const Photo& b) { return a.path < b.path; });
  std::mt19937 random(0);
  for (Photo& photo : photos) {
    photo.bytes = read_bytes(photo.path);
    const data::ImageInfo info = data::probe_image({photo.bytes, photo.path});
    photo.width = info.width, photo.height = info.height;
    photo.crop = random_crop(info.width, info.height, random);
  }
  TR_CHECK(!photos.empty(), "bench_decode: there are no files in {}", folder);
  return photos;
}

/// One way of decoding; the sum of pixels keeps it honest.
struct BenchCase {
  const char* name;
  DecodeOptions options;
  DecodeRequest (*request)(const Photo&);
};

const std::vector<BenchCase>& bench_cases() {
  const auto whole = [](const Photo&) { return DecodeRequest{}; };
  const auto crop = [](const Photo& photo) { return DecodeRequest{.crop = photo.crop}; };
  const auto resized = [](const Photo& photo) {
    return DecodeRequest{photo.crop, kTargetSide, kTargetSide};
  };
  const auto thumbnail = [](const Photo&) {
    return DecodeRequest{.target_width = 32, .target_height = 32};
  };
  static const std::vector<BenchCase> kCases{
      {"full", {}, whole},
      {"full_fast_dct", {.fast_dct = true}, whole},
      {"crop", {}, crop},            // RandomResizedCrop's regions at full resolution
      {"crop_to_224", {}, resized},  // the same, smaller where they are shrunk to 224
      {"crop_to_224_fast_dct", {.fast_dct = true}, resized},
      {"whole_to_32", {}, thumbnail}};
  return kCases;
}

/// Pictures/s of a pass over all photos.
double our_rate(ImageDecoder& decoder, const BenchCase& bench_case,
                const std::vector<Photo>& photos) {
  const Stopwatch watch;
  for (const Photo& photo : photos) {
    decoder.open({photo.bytes, photo.path});
    decoder.decode(bench_case.request(photo));
  }
  return double(photos.size()) / watch.seconds();
}

using bench::PlainLibjpeg;

/// Pictures/s of the peer's pass over all photos.
double plain_rate(PlainLibjpeg& peer, const std::vector<Photo>& photos) {
  const Stopwatch watch;
  for (const Photo& photo : photos) peer.decode(photo.bytes);
  return double(photos.size()) / watch.seconds();
}

/// Mean absolute difference to the peer's pixels, in 1/255; none where the result is smaller.
std::optional<double> difference(const BenchCase& bench_case, const std::vector<Photo>& photos,
                                 PlainLibjpeg& peer) {
  DecodeOptions options = bench_case.options;
  options.exif = data::ExifPolicy::IGNORE;  // the peer does
  ImageDecoder decoder(options);
  double sum = 0, count = 0;
  for (const Photo& photo : photos) {
    const data::ImageInfo& info = decoder.open({photo.bytes, photo.path});
    if (info.width != photo.width) continue;  // turned: the crop is another
    const DecodeRequest request = bench_case.request(photo);
    const data::DecodedImage image = decoder.decode(request);
    if (image.scale != 8) continue;
    const PixelRect crop = request.crop.value_or(PixelRect{0, 0, info.width, info.height});
    peer.decode(photo.bytes);
    for (int y = 0; y < crop.height; ++y) {
      const std::uint8_t* row = image.pixels.data + std::size_t(y) * image.pixels.row_stride;
      for (int i = 0; i < 3 * crop.width; ++i) {
        sum += std::abs(row[i] - peer.at(crop.y + y, crop.x + i / 3, i % 3));
      }
    }
    count += 3.0 * crop.width * crop.height;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

struct Options {
  std::string photos, python, json;
  int turns = 9;
};

void measure_against_libjpeg(bench::Report& report, const std::vector<Photo>& photos,
                             const Options& options) {
  PlainLibjpeg peer;
  for (const BenchCase& bench_case : bench_cases()) {
    ImageDecoder decoder(bench_case.options);
    our_rate(decoder, bench_case, photos);  // warm-up: buffers grow
    plain_rate(peer, photos);
    std::vector<double> ours, theirs;
    for (int i = 0; i < options.turns; ++i) {
      ours.push_back(our_rate(decoder, bench_case, photos));
      theirs.push_back(plain_rate(peer, photos));
    }
    bench::Row row = bench::make_row(bench_case.name, "images/s/core", bench::summarize(ours));
    bench::set_peer(row, "libjpeg-turbo, full decode", bench::summarize(theirs), false);
    row.error = difference(bench_case, photos, peer);
    report.add(row);
  }
}

/// Full decodes against those of Python's libraries, which decode whole pictures only.
void measure_against_python(bench::Report& report, const std::vector<Photo>& photos,
                            const Options& options) {
  bench::PeerProcess peer(options.python, {bench::find_peer("decode_torch.py"), options.photos});
  const BenchCase& full = bench_cases().front();
  ImageDecoder decoder(full.options);
  for (const std::string library : {"torchvision", "pillow"}) {
    const std::string name = peer.ask("name " + library);
    std::vector<double> ours, theirs;
    our_rate(decoder, full, photos);
    for (int i = 0; i < std::min(options.turns, 5); ++i) {
      ours.push_back(our_rate(decoder, full, photos));
      theirs.push_back(std::stod(peer.ask("rate " + library)));
    }
    bench::Row row = bench::make_row("full, " + library, "images/s/core", bench::summarize(ours));
    bench::set_peer(row, name, bench::summarize(theirs), false);
    report.add(row);
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Pictures/s on one core from JPEG files in memory: whole, cropped, smaller");
  app.add_option("--photos", options.photos,
                 "folder of JPEG files; default: build/data/imagenet-sample/train");
  app.add_option("--python", options.python, "Python with torchvision and Pillow: peers too");
  app.add_option("--json", options.json, "write {env, command, rows} here; - is standard output");
  app.add_option("--turns", options.turns, "passes of each side")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  bench::Report report(argc, argv);
  if (options.photos.empty()) options.photos = bench::find_photos();
  if (options.photos.empty()) {
    std::fprintf(stderr, "bench_decode: no photos in build/data; give a folder with --photos\n");
    return 0;
  }
  const std::vector<Photo> photos = load_photos(options.photos);
  double pixels = 0;
  for (const Photo& photo : photos) pixels += double(photo.width) * photo.height;
  report.set_env("photos", std::to_string(photos.size()) + " of " +
                               std::to_string(int(pixels / double(photos.size()) / 1000)) +
                               " kilopixels at the mean");
  measure_against_libjpeg(report, photos, options);
  if (!options.python.empty()) measure_against_python(report, photos, options);
  report.write_json(options.json);
  return 0;
}

}  // namespace
}  // namespace tr

int main(int argc, char** argv) { return tr::bench::run_main(tr::run, argc, argv); }
