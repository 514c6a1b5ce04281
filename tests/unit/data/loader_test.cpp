// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "core/philox.h"
#include "core/sha256.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/allocation_counter.h"
#include "support/process.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::throws;

std::shared_ptr<const Dataset> digits(const std::string& split, std::int64_t n) {
  return make_procedural_digits(split, n, 1);
}

/// Train passes with a validation pass after each.
std::function<std::optional<StreamPhase>(std::int64_t)> epochs(std::int64_t count) {
  return [count](std::int64_t i) -> std::optional<StreamPhase> {
    if (i >= 2 * count) return std::nullopt;
    return StreamPhase{i % 2 == 0 ? Split::TRAIN : Split::VAL, i / 2};
  };
}

LoaderConfig small_config(int workers) {
  LoaderConfig config;
  config.train = {.dataset = digits("train", 530),
                  .transforms = {.transforms = {Pad(2), RandomCrop(28), RandomRotation(20.0f),
                                                RandomScale(0.8f, 1.2f), RandomErasing(0.5f)},
                                 .normalization = NormMode::MNIST},
                  .batch_size = 20,
                  .global_batch = 40,
                  .shuffle = true};
  config.val = {.dataset = digits("val", 110),
                .transforms = {.normalization = NormMode::MNIST},
                .batch_size = 25,
                .global_batch = 25};
  config.seed = 5;
  config.num_workers = workers;
  return config;
}

/// What lies in a batch, with its description.
std::string digest(const Batch& b) {
  Sha256 hash;
  hash.update(std::to_string(int(b.phase.split)) + ' ' + std::to_string(b.phase.epoch) + ' ' +
              std::to_string(b.phase_index) + ' ' + std::to_string(b.step) + ' ' +
              std::to_string(b.micro) + ' ' + std::to_string(b.size) + ' ' +
              std::to_string(b.global_size) + ' ' + std::to_string(b.sample_offset) + ' ' +
              std::to_string(b.last_in_phase));
  hash.update({static_cast<const std::byte*>(b.fields.at("image")), std::size_t(b.size) * 784 * 4});
  hash.update({static_cast<const std::byte*>(b.fields.at("label")), std::size_t(b.size) * 4});
  return hash.hex();
}

std::vector<std::string> stream_of(Loader& loader) {
  std::vector<std::string> digests;
  while (const Batch* batch = loader.next()) {
    digests.push_back(digest(*batch));
    loader.release(*batch);
  }
  return digests;
}

TEST(LoaderTest, BytesDoNotDependOnWorkersOrSlots) {
  Loader one(small_config(1), epochs(3));
  const auto expected = stream_of(one);
  ASSERT_EQ(expected.size(), 3u * (14 * 2 + 5));
  for (const int workers : {2, 4, 7}) {
    for (const int slots : {2, 3, 5}) {
      LoaderConfig config = small_config(workers);
      config.num_slots = slots;
      Loader loader(config, epochs(3));
      EXPECT_EQ(loader.num_workers(), workers);
      EXPECT_EQ(stream_of(loader), expected) << workers << " workers, " << slots << " slots";
    }
  }
  LoaderConfig other = small_config(2);
  other.seed = 6;
  Loader changed(other, epochs(3));
  EXPECT_NE(stream_of(changed), expected);
}

TEST(LoaderTest, ReadersGiveTheSameBytes) {
  Loader one(small_config(1), epochs(3));
  const auto expected = stream_of(one);
  EXPECT_EQ(one.num_readers(), 0);  // a set in memory is read by its workers
  for (const auto& [workers, readers] : {std::pair{1, 1}, {1, 3}, {3, 1}, {4, 5}}) {
    LoaderConfig config = small_config(workers);
    config.num_readers = readers;
    config.bind_threads = true;
    config.val.cache_processed = true;
    Loader loader(config, epochs(3));
    EXPECT_EQ(loader.num_readers(), readers);
    EXPECT_EQ(stream_of(loader), expected) << workers << " workers, " << readers << " readers";
  }
}

TEST(LoaderTest, TheNextPassIsReadyWhenOneEnds) {
  for (const int readers : {0, 2}) {
    LoaderConfig config = small_config(2);
    config.num_readers = readers;
    Loader loader(config, epochs(20));
    int passes = 0;
    while (const Batch* batch = loader.next()) {
      const bool ends = batch->last_in_phase;
      loader.release(*batch);
      if (!ends || ++passes == 40) continue;
      // Two of three slots can be full by now, whatever pass they belong to.
      for (int i = 0; i < 500 && !loader.is_ready(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_TRUE(loader.is_ready()) << "after pass " << passes;
      loader.stats();
      const Batch* first = loader.next();
      EXPECT_EQ(first->step, 0);
      EXPECT_EQ(loader.stats().wait_ms, 0);
      loader.release(*first);
    }
    EXPECT_EQ(passes, 40);
  }
}

TEST(LoaderTest, MemoryStaysTheSameOverEpochs) {
  LoaderConfig config = small_config(2);
  config.num_readers = 2;
  Loader loader(config, epochs(20));
  const auto pass = [&] {
    while (const Batch* batch = loader.next()) {
      const bool ends = batch->last_in_phase;
      loader.release(*batch);
      if (ends) return;
    }
  };
  for (int i = 0; i < 4; ++i) pass();
  const std::int64_t planned = loader.memory_bytes(), before = test::resident_bytes();
  for (int i = 4; i < 40; ++i) pass();
  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_EQ(loader.memory_bytes(), planned);
  if (test::kSanitized) return;
  EXPECT_NEAR(double(test::resident_bytes()), double(before), 0.01 * double(before));
}

TEST(LoaderTest, ResumesAtAnyPhaseAndStep) {
  Loader whole(small_config(2), epochs(2));
  const auto expected = stream_of(whole);
  for (const auto& [phase, step, skipped] : {std::tuple{0, 7, 14},
                                             {0, 14, 28},
                                             {1, 0, 28},
                                             {1, 3, 31},
                                             {2, 0, 33},
                                             {3, 4, 65},
                                             {3, 5, 66},
                                             {4, 0, 66}}) {
    Loader loader(small_config(3), epochs(2), phase, step);
    EXPECT_EQ(stream_of(loader),
              std::vector<std::string>(expected.begin() + skipped, expected.end()))
        << "phase " << phase << ", step " << step;
  }
  EXPECT_TRUE(throws<InvalidArgument>([] { Loader(small_config(1), epochs(2), 1, 6); },
                                      "which has 5 steps"));
}

TEST(LoaderTest, EveryPassGivesEverySampleOnce) {
  // The image of sample k holds k, so that what comes is known whatever the order.
  constexpr std::int64_t kSamples = 103;
  Tensor images({kSamples, 1, 1, 4}, DType::FP32), ids({kSamples}, DType::INT32);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    for (int c = 0; c < 4; ++c) images.data<float>()[4 * i + c] = float(i);
    ids.data<std::int32_t>()[i] = std::int32_t(i);
  }
  LoaderConfig config;
  config.train = {.dataset = make_tensor_dataset({{"image", images}, {"label", ids}}),
                  .batch_size = 8,
                  .global_batch = 48,
                  .shuffle = true};
  config.num_workers = 3;
  config.world_size = 3;
  std::multiset<std::int32_t> seen;
  std::int64_t last_global = 0;
  for (config.rank = 0; config.rank < 3; ++config.rank) {
    Loader loader(config, [](std::int64_t i) {
      return i == 0 ? std::optional(StreamPhase{}) : std::nullopt;
    });
    EXPECT_EQ(loader.num_steps(Split::TRAIN), 3);
    EXPECT_EQ(loader.num_steps(Split::VAL), 0);
    while (const Batch* b = loader.next()) {
      const auto* label = static_cast<const std::int32_t*>(b->fields.at("label"));
      const auto* image = static_cast<const float*>(b->fields.at("image"));
      for (std::int64_t i = 0; i < b->size; ++i) {
        seen.insert(label[i]);
        ASSERT_EQ(image[4 * i + 3], float(label[i]));
      }
      last_global = b->global_size;
      loader.release(*b);
    }
  }
  EXPECT_EQ(last_global, 103 - 96);
  ASSERT_EQ(seen.size(), std::size_t(kSamples));
  for (std::int32_t i = 0; i < kSamples; ++i) EXPECT_EQ(seen.count(i), 1u);
}

TEST(LoaderTest, CachedValidationGivesTheSameBytes) {
  LoaderConfig config = small_config(3);
  Loader plain(config, epochs(3));
  const auto expected = stream_of(plain);
  const std::int64_t plain_bytes = plain.memory_bytes();
  config.val.cache_processed = true;
  Loader cached(config, epochs(3));
  EXPECT_EQ(stream_of(cached), expected);
  EXPECT_EQ(cached.memory_bytes() - plain_bytes, 110 * (784 * 4 + 4));
  config.train.cache_processed = true;
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { Loader(config, epochs(1)); }, "deterministic transforms only"));
}

/// Reads slowly; one sample may be bad.
class OddDataset final : public Dataset {
 public:
  OddDataset(std::int64_t n, std::int64_t bad, int delay_us)
      : n_(n), bad_(bad), delay_us_(delay_us) {}
  std::int64_t num_samples() const override { return n_; }
  std::vector<Field> fields() const override { return {{"label", {Shape{}, DType::INT32}}}; }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    ++reads;
    if (delay_us_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us_));
    if (id == bad_ || id == bad_ + 1)
      throw DataError("sample " + std::to_string(id) + " is damaged");
    const std::int32_t value = std::int32_t(id);
    std::memcpy(out[0], &value, 4);
  }
  std::string name() const override { return "odd"; }
  mutable std::atomic<std::int64_t> reads{0};

 private:
  std::int64_t n_, bad_;
  int delay_us_;
};

LoaderConfig odd_config(std::shared_ptr<const Dataset> dataset, int workers) {
  LoaderConfig config;
  config.train = {.dataset = std::move(dataset), .batch_size = 10, .global_batch = 10};
  config.num_workers = workers;
  return config;
}

std::optional<StreamPhase> endless(std::int64_t i) { return StreamPhase{Split::TRAIN, i}; }

TEST(LoaderTest, ABadSampleIsThrownByNextWhateverTheWorkers) {
  for (const int workers : {1, 2, 5}) {
    LoaderConfig config = odd_config(std::make_shared<OddDataset>(60, 34, 0), workers);
    config.num_readers = workers - 1;
    Loader loader(config, endless);
    for (int step = 0; step < 3; ++step) loader.release(*loader.next());
    // Both 34 and 35 fail: the first one is told, again at every further call.
    EXPECT_TRUE(throws<DataError>([&] { loader.next(); }, "sample 34 is damaged"));
    EXPECT_TRUE(throws<DataError>([&] { loader.next(); }, "sample 34 is damaged"));
  }
}

TEST(LoaderTest, WorkersStopWhenTheSlotsAreFull) {
  const auto dataset = std::make_shared<OddDataset>(1000, -10, 0);
  Loader loader(odd_config(dataset, 3), endless);
  const Batch* first = loader.next();
  for (int i = 0; i < 100 && dataset->reads < 30; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(dataset->reads, 30);  // three slots of ten samples
  EXPECT_EQ(loader.str(), "3 workers, 3 batches of 256 B ahead, 24.0 KiB in all");
  loader.release(*first);
  loader.release(*loader.next());
}

TEST(LoaderTest, StopsAtAnyMoment) {
  const std::int64_t threads_before = test::num_threads();
  const auto dataset = std::make_shared<OddDataset>(1000, -10, 0);
  for (int trial = 0; trial < 1000; ++trial) {
    const Philox4 draw = DrawAddress{1, DrawPurpose::TEST, std::uint64_t(trial), 0}.block(0);
    LoaderConfig config = odd_config(dataset, 1 + int(uniform_below(draw.v[0], 4)));
    config.num_readers = trial % 3;
    config.num_slots = 2 + trial % 5;
    Loader loader(config, endless);
    const int batches = int(uniform_below(draw.v[1], 7));
    for (int i = 0; i < batches; ++i) {
      const Batch* batch = loader.next();
      ASSERT_EQ(*static_cast<const std::int32_t*>(batch->fields.at("label")), 10 * i);
      loader.release(*batch);
    }
    if ((draw.v[2] & 1u) != 0 && batches > 0) loader.next();  // one still out
    for (std::uint32_t spin = uniform_below(draw.v[3], 2000); spin > 0; --spin)
      std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  EXPECT_EQ(test::num_threads(), threads_before);
}

TEST(LoaderTest, ChoosesItsThreadsUnlessTheyAreSet) {
  const int cores = int(std::thread::hardware_concurrency());
  LoaderConfig config = small_config(0);
  {
    Loader loader(config, epochs(1));
    EXPECT_GE(loader.num_workers(), 1);
    EXPECT_LE(loader.num_workers(), std::max(1, cores - 1));
    EXPECT_EQ(loader.num_readers(), 0) << "the set lies in memory";
  }
  config.num_workers = 3;
  config.num_readers = 2;
  Loader loader(config, epochs(1));
  EXPECT_EQ(loader.num_workers(), 3);
  EXPECT_EQ(loader.num_readers(), 2);
}

TEST(LoaderTest, SlowSetsAreWaitedForAndCounted) {
  Loader loader(odd_config(std::make_shared<OddDataset>(40, -10, 300), 2), endless);
  for (int i = 0; i < 8; ++i) loader.release(*loader.next());
  const LoaderStats stats = loader.stats();
  EXPECT_GT(stats.wait_ms, 3.0);  // 80 samples of 0.3 ms on two workers, less what was ahead
  EXPECT_GE(stats[Stage::READ], 80 * 0.3);
  EXPECT_GE(stats.samples, 80);
  EXPECT_LT(loader.stats()[Stage::READ], stats[Stage::READ]);  // since the last call
}

TEST(LoaderTest, AStepAllocatesNothing) {
  Loader loader(small_config(2), epochs(30));
  for (int i = 0; i < 40; ++i) loader.release(*loader.next());  // threads are up, both splits seen
  const test::AllocationCounter counter;
  for (int i = 0; i < 300; ++i) loader.release(*loader.next());
  EXPECT_EQ(counter.count(), 0);
}

TEST(LoaderTest, FullMemoryReadsEverySampleOnce) {
  const auto dataset = std::make_shared<OddDataset>(50, -10, 0);
  LoaderConfig config = odd_config(dataset, 2);
  config.full_memory = std::make_shared<SetsInMemory>();
  Loader loader(config, endless);
  EXPECT_EQ(dataset->reads, 50);
  const Loader other(config, endless);  // of another rank: the same copy
  EXPECT_EQ(dataset->reads, 50);
  for (int i = 0; i < 20; ++i) {
    const Batch* batch = loader.next();
    EXPECT_EQ(static_cast<const std::int32_t*>(batch->fields.at("label"))[9], (10 * i + 9) % 50);
    loader.release(*batch);
  }
  EXPECT_EQ(dataset->reads, 50);
}

TEST(LoaderTest, RefusesWrongUse) {
  LoaderConfig config = small_config(1);
  EXPECT_TRUE(throws<InvalidArgument>([] { Loader(LoaderConfig{}, endless); },
                                      "neither a training nor a validation set"));
  LoaderConfig slots = config;
  slots.num_slots = 1;
  EXPECT_TRUE(throws<InvalidArgument>([&] { Loader(slots, endless); }, "num_slots is 1"));
  LoaderConfig workers = config;
  workers.num_workers = -2;
  EXPECT_TRUE(throws<InvalidArgument>([&] { Loader(workers, endless); }, "num_workers is -2"));
  LoaderConfig readers = config;
  readers.num_readers = 257;
  EXPECT_TRUE(throws<InvalidArgument>([&] { Loader(readers, endless); }, "num_readers is 257"));
  LoaderConfig no_val = config;
  no_val.val.dataset = nullptr;
  EXPECT_TRUE(throws<InvalidArgument>([&] { Loader loader(no_val, epochs(1), 1, 0); },
                                      "phase 1 is a validation pass"));
  Loader meets_it(no_val, epochs(1));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        while (const Batch* b = meets_it.next()) meets_it.release(*b);
      },
      "phase 1 is a validation pass"));
  Loader loader(config, endless);
  const Batch* first = loader.next();
  const Batch* second = loader.next();
  EXPECT_TRUE(throws<InvalidArgument>([&] { loader.release(*second); }, "in the order of next()"));
  loader.next();
  EXPECT_TRUE(throws<InvalidArgument>([&] { loader.next(); }, "all 3 slots are out"));
  loader.release(*first);
  EXPECT_NE(loader.next(), nullptr);
}

TEST(LoaderTest, FloatImagesAreConverted) {
  const Tensor images = Tensor::uniform({6, 2, 2, 1}, -2, 2, 3);
  LoaderConfig config = odd_config(make_tensor_dataset({{"image", images}}), 2);
  config.train.batch_size = config.train.global_batch = 6;
  config.image_dtype = DType::BF16;
  Loader loader(config, endless);
  const Tensor expected = images.to(DType::BF16);
  EXPECT_EQ(std::memcmp(loader.next()->fields.at("image"), expected.raw(), 6 * 4 * 2), 0);
  config.train.transforms.normalization = NormMode::MNIST;
  EXPECT_TRUE(throws<InvalidArgument>([&] { Loader(config, endless); }, "need uint8 pixels"));
}

}  // namespace
}  // namespace tr::data
