// SPDX-License-Identifier: Apache-2.0
#include "task/raw_images.h"

#include <algorithm>
#include <vector>

#include "algo/loss_spec.h"
#include "backend/device_backend.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/format.h"
#include "core/log.h"
#include "core/pixel/image_tail.h"
#include "data/loader_threads.h"
#include "data/transforms/batch_mix.h"
#include "data/transforms/chain.h"
#include "task/held_data.h"

namespace tr {

namespace {

constexpr const char* kImage = "image";
constexpr const char* kPixels = "image_pixels";
constexpr const char* kTail = "image_tail";

std::optional<Field> image_field(const Dataset& set) {
  for (Field& field : set.fields()) {
    if (field.name == kImage) return field;
  }
  return std::nullopt;
}

bool reads_images(const TrainOptions& train) {
  std::vector<LossTerm> terms = train.loss.terms;
  for (const Objective& objective : train.objectives)
    terms.insert(terms.end(), objective.loss.terms.begin(), objective.loss.terms.end());
  return std::any_of(terms.begin(), terms.end(), [](const LossTerm& term) {
    const std::vector<std::string> fields = fields_of(term);
    return std::find(fields.begin(), fields.end(), kImage) != fields.end();
  });
}

/// Why the graphs cannot normalise the run's images; empty if they can.
std::string why_not_raw(const CompiledRun& run) {
  if (data::mixes_batches(run.train_chain) && run.data.train) {
    return fmt::format("{}: the loader mixes images that are normalised", run.train_chain.str());
  }
  if (reads_images(run.config.train)) return "the loss compares with images that are normalised";
  for (const auto* set : {run.data.train.get(), run.data.val.get()}) {
    if (set == nullptr) continue;
    const std::optional<Field> image = image_field(*set);
    if (!image || image->type.dtype != DType::UINT8)
      return fmt::format("the set {} has no field \"image\" of type uint8", set->name());
    if (image->type.shape.back() > pixel::kMostTailChannels) {
      return fmt::format("the images have {} channels, expected at most {}",
                         image->type.shape.back(), pixel::kMostTailChannels);
    }
  }
  return "";
}

/// Pixels of a split as they come out of its chain, and what they become.
struct SplitImages {
  TensorType pixels, normalised;  // of one sample
};

SplitImages images_of(const Dataset& set, const TensorType& fed) {
  const int64_t channels = image_field(set)->type.shape.back();
  return {{fed.shape.with_dim(2, channels), DType::UINT8}, fed};
}

RawImages raw_images_of(const CompiledRun& run) {
  const bool training = run.data.train != nullptr;
  const Dataset& set = training ? *run.data.train : *run.data.val;
  const TransformChain& chain = training ? run.train_chain : run.val_chain;
  RawImages images{.channels = chain.output_channels, .mean = {}, .std = {}};
  const int channels = int(image_field(set)->type.shape.back());
  for (const data::ChannelNorm& norm : data::channel_norms(chain.normalization, channels)) {
    images.mean.push_back(norm.mean);
    images.std.push_back(norm.std);
  }
  return images;
}

/// The nodes' types for one batch of the run.
struct NodeTypes {
  Attrs attrs;
  std::vector<TensorType> in, out;
};

NodeTypes node_of(const CompiledRun& run, const RawImages& raw, const SplitImages& images) {
  const std::int64_t batch = run.batches.local;
  NodeTypes node;
  node.attrs = normalize_image_attrs(raw, images.normalised.dtype);
  node.in = {{images.pixels.shape.prepend(batch), DType::UINT8},
             {Shape{batch, pixel::kTailInts}, DType::INT32}};
  node.out = {{images.normalised.shape.prepend(batch), images.normalised.dtype}};
  return node;
}

/// Microseconds for a batch.
struct PlaceTimes {
  double threads = 0, copy = 0, node = 0;
  double sum() const { return threads + copy + node; }
};

/// Microseconds that `pass` takes, the least of some calls.
template <typename F>
double least_us(F&& pass) {
  constexpr int kCalls = 20;
  double least = 0;
  for (int i = 0; i < kCalls; ++i) {
    const Stopwatch watch;
    pass();
    least = i == 0 ? watch.us() : std::min(least, watch.us());
  }
  return least;
}

/// The loader's part: one image normalised, and one copied as it is, by all threads together.
std::pair<double, double> thread_times(const CompiledRun& run, const SplitImages& images) {
  const Shape& shape = images.pixels.shape;
  const data::ImageShape pixels{int(shape[0]), int(shape[1]), int(shape[2])};
  const data::FusedNormalization pass(run.train_chain.normalization, std::nullopt, pixels,
                                      images.normalised.dtype, int(images.normalised.shape[2]));
  std::vector<std::uint8_t> from(pixels.num_bytes() + data::kImageSlack, 77), copied(from.size());
  std::vector<std::byte> to(std::size_t(bytes_of(images.normalised)));
  const data::ImageRef image(from.data(), pixels);
  const int workers = data::choose_threads(run.loader_config(0), true).workers;
  const double share = double(run.batches.local) / workers;
  return {share * least_us([&] { pass.apply(image, false, to.data(), {}); }),
          share * least_us([&] { std::copy(from.begin(), from.end(), copied.begin()); })};
}

double node_us(const DeviceBackend& backend, int device, const NodeTypes& node) {
  const auto bench = backend.make_bench(device);
  const KernelQuery query{node.attrs, node.in, node.out};
  const std::vector<const KernelDef*> kernels = kernels_of("normalize_image", backend.kind);
  TR_ASSERT(!kernels.empty());
  bench->begin(query);
  const auto engine = bench->prepare({kernels.front(), ""}, query);
  double least = engine->sample_us();
  for (int i = 0; i < 4; ++i) least = std::min(least, engine->sample_us());
  return least;
}

/// On the host, and on the device.
std::pair<PlaceTimes, PlaceTimes> measure(const CompiledRun& run, const NodeTypes& node,
                                          const SplitImages& images) {
  const DeviceBackend& backend = *find_backend(run.device.kind);
  const int device = run.device.gpus.front();
  const auto [normalise_us, pack_us] = thread_times(run, images);
  const PlaceTimes host{normalise_us, backend.copy_us(device, bytes_of(node.out[0])), 0};
  const std::int64_t raw_bytes = bytes_of(node.in[0]) + bytes_of(node.in[1]);
  return {host, {pack_us, backend.copy_us(device, raw_bytes), node_us(backend, device, node)}};
}

/// What the table holds, or what takes less time, which it then holds.
bool is_faster_raw(CompiledRun& run, const NodeTypes& node, const SplitImages& images) {
  const std::string key =
      fmt::format("normalize_image place {} {} -> {}", run.device.kind, node.in[0], node.out[0]);
  const std::string known = run.tuning.find(key);
  if (known == "device" || known == "host") return known == "device";
  const DeviceBackend* backend = find_backend(run.device.kind);
  if (backend == nullptr || !backend->copy_us || !backend->make_bench) return false;
  const auto [host, device] = measure(run, node, images);
  const bool raw = device.sum() < host.sum();
  run.tuning.set(key, raw ? "device" : "host", raw ? device.sum() : host.sum());
  log_info(
      "images are normalised on the {}: a batch takes {:.0f} us on the host (threads {:.0f}, copy "
      "{:.0f}), {:.0f} us on the device (threads {:.0f}, copy {:.0f}, node {:.0f})",
      raw ? "device" : "host", host.sum(), host.threads, host.copy, device.sum(), device.threads,
      device.copy, device.node);
  return raw;
}

}  // namespace

std::optional<RawImages> decide_raw_images(CompiledRun& run) {
  const PreprocessorSetting::Values& settings = run.config.preprocessor.values();
  const bool has_data = run.data.train || run.data.val;
  if (settings.normalize_on == DataPlace::HOST || !has_data) return std::nullopt;
  const bool forced = settings.normalize_on == DataPlace::DEVICE;
  const bool cpu = run.device.kind == DeviceKind::CPU;
  if (!forced && cpu) return std::nullopt;  // the same processor, with nothing to copy
  if (!cpu && settings.place != DataPlace::HOST && why_not_held(run).empty())
    return std::nullopt;  // the device makes its batches itself
  const std::string reason = why_not_raw(run);
  if (!reason.empty()) {
    if (forced) throw_as<Unsupported>("normalize_on is device, but it cannot be: {}", reason);
    return std::nullopt;
  }
  const RawImages raw = raw_images_of(run);
  const auto split_images = [&](Mode mode) {
    const bool training = mode == Mode::TRAIN;
    return images_of(training ? *run.data.train : *run.data.val, run.fields.of(mode).at(kImage));
  };
  const SplitImages images = split_images(run.data.train ? Mode::TRAIN : Mode::EVAL);
  if (!forced && !is_faster_raw(run, node_of(run, raw, images), images)) return std::nullopt;
  const TensorType tail{Shape{pixel::kTailInts}, DType::INT32};
  for (const Mode mode : {Mode::TRAIN, Mode::EVAL}) {
    if (!(mode == Mode::TRAIN ? run.data.train : run.data.val)) continue;
    ModeFields::Fields& fields = mode == Mode::TRAIN ? run.fields.train : run.fields.eval;
    fields[kPixels] = split_images(mode).pixels;
    fields.erase(kImage);
    fields[kTail] = tail;
  }
  return raw;
}

}  // namespace tr
