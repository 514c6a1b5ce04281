// SPDX-License-Identifier: Apache-2.0
// Batches that the device assembles out of a resident split, against the loader's: every byte of
// whole epochs.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/cuda/feed.h"
#include "core/sha256.h"
#include "data/loader.h"
#include "data/resident_set.h"
#include "data/sampler.h"
#include "data/transforms/program.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/raw_batches.h"
#include "support/throws.h"

namespace tr {
namespace {

using cuda::DeviceSplit;
using cuda::FeedTarget;
using data::Split;
using test::throws;

constexpr std::size_t kGuardBytes = 512;
constexpr int kGuard = 0xCC;

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) : bytes_(bytes) {
    TR_CUDA(cudaMalloc(&data_, bytes));
    fill(0);
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  void fill(int value) { TR_CUDA(cudaMemset(data_, value, bytes_)); }
  std::vector<std::byte> read() const {
    std::vector<std::byte> host(bytes_);
    TR_CUDA(cudaMemcpy(host.data(), data_, bytes_, cudaMemcpyDeviceToHost));
    return host;
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

class CudaFeedTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
      GTEST_SKIP() << "needs a GPU: " << cudaGetErrorString(status) << ", " << count << " devices";
    }
    TR_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  cudaStream_t stream_ = nullptr;
};

/// A split on the device with the ring of rows and the counter that steps read.
class Feeder {
 public:
  static constexpr int kRing = 7;

  Feeder(const data::SplitConfig& config, DType dtype, std::uint64_t seed, Split split)
      : set_(*config.dataset, dtype, 2), rows_(kRing * sizeof(FeedRow)), base_(8) {
    split_ = {.num_samples = set_.num_samples(),
              .seed = seed,
              .split = std::uint64_t(split),
              .shuffle = config.shuffle};
    for (const NamedTensor& field : set_.fields()) {
      const auto bytes = std::int64_t(field.tensor.num_bytes()) / set_.num_samples();
      split_.fields.push_back(
          {field.name, static_cast<const std::byte*>(field.tensor.raw()), bytes});
      batch_bytes_[field.name] = std::size_t(bytes);
      if (field.name != "image" || field.tensor.dtype() != DType::UINT8) continue;
      program_ = data::program_of(config.transforms, field.tensor.shape().drop_first(), dtype);
      split_.image = &*program_;
      batch_bytes_["image"] = std::size_t(program_->out_elements()) * size_of(dtype);
    }
    device_.emplace(split_);
    for (const ResidentField& field : split_.fields) {
      targets_.push_back(std::make_unique<DeviceBytes>(
          batch_bytes_[field.name] * std::size_t(config.batch_size) + kGuardBytes));
    }
  }

  void write_row(std::int64_t index, std::int64_t epoch, std::int64_t position) {
    const FeedRow row = feed_row(split_, epoch, position);
    TR_CUDA(
        cudaMemcpy(rows_.as<FeedRow>() + index % kRing, &row, sizeof row, cudaMemcpyHostToDevice));
  }
  void enqueue(cudaStream_t stream, int k, std::int64_t batch) {
    FeedTarget target;
    for (std::size_t i = 0; i < targets_.size(); ++i) target.fields[i] = targets_[i]->as<void>();
    cuda::enqueue_feed(stream, *device_, rows_.as<FeedRow>(), base_.as<std::int64_t>(), k, kRing,
                       target, batch);
  }
  void advance(cudaStream_t stream, int k) {
    cuda::enqueue_advance(stream, base_.as<std::int64_t>(), k);
  }
  void poison() {
    for (auto& target : targets_) target->fill(kGuard);
    TR_CUDA(cudaDeviceSynchronize());
  }
  /// The fields' bytes of `batch` samples; what lies behind them must be untouched.
  std::map<std::string, std::vector<std::byte>> read(std::int64_t batch) const {
    std::map<std::string, std::vector<std::byte>> fields;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const std::string& name = split_.fields[i].name;
      std::vector<std::byte> bytes = targets_[i]->read();
      const std::size_t used = batch_bytes_.at(name) * std::size_t(batch);
      for (std::size_t j = used; j < bytes.size(); ++j) {
        if (bytes[j] == std::byte(kGuard)) continue;
        ADD_FAILURE() << name << ": byte " << j - used << " behind the batch was written";
        break;
      }
      bytes.resize(used);
      fields[name] = std::move(bytes);
    }
    return fields;
  }
  std::int64_t num_samples() const { return split_.num_samples; }
  const DeviceSplit& device() const { return *device_; }

 private:
  data::ResidentSet set_;
  std::optional<pixel::Program> program_;
  ResidentSplit split_;
  std::optional<DeviceSplit> device_;
  DeviceBytes rows_, base_;
  std::vector<std::unique_ptr<DeviceBytes>> targets_;
  std::map<std::string, std::size_t> batch_bytes_;
};

/// Images of random pixels and, of each width that is copied in another way, one field.
std::shared_ptr<const Dataset> random_set(std::int64_t n, const Shape& image) {
  const auto bytes = [n](const Shape& shape, std::uint64_t seed) {
    return Tensor::uniform(shape.prepend(n), 0, 256, seed).to(DType::UINT8);
  };
  return make_tensor_dataset({{"label", Tensor::uniform({n}, 0, 10, 1).to(DType::INT32)},
                              {"image", bytes(image, 2)},
                              {"mask", bytes({5}, 3)},
                              {"soft_label", Tensor::uniform({n, 3}, 0, 1, 4)},
                              {"wide", Tensor::uniform({n, 40}, 0, 1, 5)}});
}

TransformChain article_chain(int channels) {
  TransformChain chain{.transforms = {Pad(2), RandomCrop(28), RandomRotation(20.0f),
                                      RandomScale(0.8f, 1.2f), RandomErasing(0.5f)}};
  for (int c = 0; c < channels; ++c) {
    chain.normalization.mean.push_back(0.13f + 0.1f * float(c));
    chain.normalization.std.push_back(0.31f + 0.1f * float(c));
  }
  return chain;
}

std::string compare(const data::Batch& batch,
                    const std::map<std::string, std::vector<std::byte>>& got) {
  for (const auto& [name, bytes] : got) {
    const auto* expected = static_cast<const std::byte*>(batch.fields.at(name));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == expected[i]) continue;
      return name + " differs at byte " + std::to_string(i) + " of " +
             std::to_string(bytes.size()) + ", sample " +
             std::to_string(i / (bytes.size() / std::size_t(batch.size)));
    }
  }
  return "";
}

void update(Sha256& hash, const std::byte* bytes, std::size_t count) {
  hash.update({bytes, count});
}

/// Runs the loader and the device side by side over `epochs` epochs and compares every batch and
/// the hash of every epoch.
void expect_equal_epochs(cudaStream_t stream, const data::LoaderConfig& config,
                         std::int64_t epochs) {
  data::Loader loader(config, [epochs](std::int64_t i) -> std::optional<data::StreamPhase> {
    if (i >= 2 * epochs) return std::nullopt;
    return data::StreamPhase{i % 2 == 0 ? Split::TRAIN : Split::VAL, i / 2};
  });
  Feeder train(config.train, config.image_dtype, config.seed, Split::TRAIN);
  Feeder val(config.val, config.image_dtype, config.seed, Split::VAL);
  std::int64_t steps[2] = {};
  Sha256 by_loader, by_device;
  int hashed = 0;
  while (const data::Batch* batch = loader.next()) {
    const auto split = int(batch->phase.split);
    Feeder& feeder = split == 0 ? train : val;
    const data::SplitConfig& part = split == 0 ? config.train : config.val;
    const std::int64_t position = batch->step * part.global_batch + batch->sample_offset;
    const int k = int(steps[split] % 3);  // three steps a launch: the counter moves once
    feeder.write_row(steps[split], batch->phase.epoch, position);
    feeder.poison();
    feeder.enqueue(stream, k, batch->size);
    if (k == 2) feeder.advance(stream, 3);
    TR_CUDA(cudaStreamSynchronize(stream));
    ++steps[split];
    const auto got = feeder.read(batch->size);
    ASSERT_EQ(compare(*batch, got), "")
        << "split " << split << ", epoch " << batch->phase.epoch << ", step " << batch->step;
    for (const auto& [name, bytes] : got) {
      update(by_device, bytes.data(), bytes.size());
      update(by_loader, static_cast<const std::byte*>(batch->fields.at(name)), bytes.size());
    }
    if (batch->last_in_phase) {
      EXPECT_EQ(by_loader.hex(), by_device.hex()) << "epoch " << batch->phase.epoch;
      by_loader = by_device = Sha256();
      ++hashed;
    }
    loader.release(*batch);
  }
  EXPECT_EQ(hashed, 2 * epochs);
}

data::LoaderConfig config_of(std::shared_ptr<const Dataset> train,
                             std::shared_ptr<const Dataset> val, const TransformChain& chain,
                             std::int64_t batch) {
  data::LoaderConfig config;
  config.train = {.dataset = std::move(train),
                  .transforms = chain,
                  .batch_size = batch,
                  .global_batch = batch,
                  .shuffle = true};
  config.val = {
      .dataset = std::move(val), .transforms = chain, .batch_size = batch, .global_batch = batch};
  config.seed = 0x123456789ABCDEFu;
  config.num_workers = 2;
  return config;
}

constexpr DType kTypes[] = {DType::FP32, DType::FP16, DType::BF16};

TEST_F(CudaFeedTest, WholeEpochsOfTheArticlesChainEqualTheLoaders) {
  for (const DType dtype : kTypes) {
    // 1037 = 20 * 50 + 37: the last batch is ragged.
    data::LoaderConfig config =
        config_of(make_procedural_digits("train", 1037, 1), make_procedural_digits("val", 310, 1),
                  article_chain(1), 50);
    config.image_dtype = dtype;
    expect_equal_epochs(stream_, config, 3);
  }
}

TEST_F(CudaFeedTest, ThreeChannelsAndEveryFieldEqualTheLoaders) {
  for (const DType dtype : kTypes) {
    data::LoaderConfig config =
        config_of(random_set(233, {30, 26, 3}), random_set(101, {30, 26, 3}), article_chain(3), 25);
    config.image_dtype = dtype;
    config.train.shuffle = dtype != DType::FP16;
    expect_equal_epochs(stream_, config, 2);
  }
}

TEST_F(CudaFeedTest, OddSizesAndEveryStepEqualTheLoaders) {
  const std::vector<Transform> kChains[] = {
      {},
      {RandomErasing(1.0f)},
      {Pad(3, 77), Pad(1, 0, PadMode::EDGE), RandomCrop(9)},
      {Pad(1, 0, PadMode::SYMMETRIC), RandomRotation(360.0f, 200), Pad(2, 5)},
      {RandomScale(0.1f, 9.0f), Pad(1, 0, PadMode::REFLECT), RandomScale(0.5f, 2.0f)},
      {RandomCrop(40), RandomRotation(45.0f), RandomRotation(45.0f, 255), RandomErasing(0.5f)}};
  for (const Shape& shape : {Shape{7, 41, 1}, Shape{33, 5, 3}, Shape{3, 2, 2}, Shape{65, 64, 3}}) {
    for (const auto& transforms : kChains) {
      const TransformChain chain{.transforms = transforms};
      data::LoaderConfig config = config_of(random_set(37, shape), random_set(11, shape), chain, 8);
      config.image_dtype = kTypes[transforms.size() % 3];
      SCOPED_TRACE(chain.str() + " on " + shape.str());
      expect_equal_epochs(stream_, config, 1);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaFeedTest, LargeImagesAreReadWhereTheyLie) {
  const TransformChain chains[] = {
      {}, {.transforms = {Pad(3), RandomCrop(90)}}, {.transforms = {RandomRotation(20.0f)}}};
  for (const TransformChain& chain : chains) {
    data::LoaderConfig config =
        config_of(random_set(13, {130, 117, 3}), random_set(5, {130, 117, 3}), chain, 4);
    for (const DType dtype : {DType::FP32, DType::FP16}) {
      config.image_dtype = dtype;
      expect_equal_epochs(stream_, config, 1);
    }
  }
}

TEST_F(CudaFeedTest, FloatImagesAreCopied) {
  for (const DType dtype : kTypes) {
    const auto set = make_tensor_dataset({{"image", Tensor::uniform({61, 3, 5, 1}, -1, 1, 1)},
                                          {"target", Tensor::uniform({61, 2}, -1, 1, 2)}});
    data::LoaderConfig config = config_of(set, set, {}, 9);
    config.image_dtype = dtype;
    expect_equal_epochs(stream_, config, 2);
  }
}

TEST_F(CudaFeedTest, RanksAndMicroBatchesTakeTheirShares) {
  data::LoaderConfig config =
      config_of(random_set(107, {12, 11, 1}), random_set(30, {12, 11, 1}), article_chain(1), 5);
  config.train.global_batch = config.val.global_batch = 20;  // two ranks, two micro-batches
  config.world_size = 2;
  for (config.rank = 0; config.rank < 2; ++config.rank) expect_equal_epochs(stream_, config, 2);
}

TEST_F(CudaFeedTest, CapturedLaunchesReadTheirRowsWhenTheyRun) {
  const data::LoaderConfig config =
      config_of(random_set(90, {28, 28, 1}), random_set(9, {28, 28, 1}), article_chain(1), 10);
  Feeder feeder(config.train, DType::FP32, config.seed, Split::TRAIN);
  Feeder eager(config.train, DType::FP32, config.seed, Split::TRAIN);
  cudaGraph_t graph = nullptr;
  TR_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  feeder.enqueue(stream_, 0, 10);
  feeder.advance(stream_, 1);
  TR_CUDA(cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t exec = nullptr;
  TR_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (std::int64_t step = 0; step < 18; ++step) {  // two epochs, the ring goes round
    feeder.poison();
    eager.poison();
    feeder.write_row(step, step / 9, step % 9 * 10);
    eager.write_row(0, step / 9, step % 9 * 10);
    TR_CUDA(cudaDeviceSynchronize());
    TR_CUDA(cudaGraphLaunch(exec, stream_));
    eager.enqueue(stream_, 0, 10);
    TR_CUDA(cudaStreamSynchronize(stream_));
    EXPECT_EQ(feeder.read(10), eager.read(10)) << "step " << step;
  }
  TR_CUDA(cudaGraphExecDestroy(exec));
  TR_CUDA(cudaGraphDestroy(graph));
}

TEST_F(CudaFeedTest, PlacesBehindTheSetStayAsTheyAre) {
  const data::LoaderConfig config =
      config_of(random_set(20, {9, 9, 1}), random_set(9, {9, 9, 1}), article_chain(1), 8);
  Feeder feeder(config.train, DType::FP32, 1, Split::TRAIN);
  feeder.write_row(0, 0, 16);  // four samples are left
  feeder.poison();
  feeder.enqueue(stream_, 0, 8);
  TR_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_EQ(feeder.read(4).at("label").size(), 16u);  // read() finds all else untouched
}

// Of a set that does not stay on the device: the loader's pixels, normalised by a node.
TEST_F(CudaFeedTest, TheNodeNormalisesToTheLoadersBytes) {
  test::expect_same_last_pass({DeviceKind::CUDA, 0});
}

TEST_F(CudaFeedTest, RefusesWhatItCannotHold) {
  std::vector<std::byte> bytes(400 * 400 * 3);
  // A rotation behind another: the image between them has to lie in shared memory.
  const TransformChain two_stages{.transforms = {RandomRotation(20.0f), RandomScale(0.8f, 1.2f)}};
  const pixel::Program large = data::program_of(two_stages, {400, 400, 3}, DType::FP32);
  EXPECT_TRUE(throws<Unsupported>(
      [&] {
        DeviceSplit({.num_samples = 1,
                     .fields = {{"image", bytes.data(), 400 * 400 * 3}},
                     .image = &large});
      },
      "bytes of shared memory"));
  const pixel::Program small = data::program_of({}, {4, 4, 1}, DType::FP32);
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        DeviceSplit({.num_samples = 1, .fields = {{"image", bytes.data(), 15}}, .image = &small});
      },
      "an image has 15 bytes, the transforms were prepared for 16"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        DeviceSplit({.num_samples = 1, .fields = {{"label", bytes.data(), 4}}, .image = &small});
      },
      "no field \"image\""));
  EXPECT_TRUE(throws<InvalidArgument>([&] { DeviceSplit({.num_samples = 1}); }, "0 fields"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        DeviceSplit({.num_samples = 0, .fields = {{"label", bytes.data(), 4}}});
      },
      "0 samples"));
}

}  // namespace
}  // namespace tr
