// SPDX-License-Identifier: Apache-2.0
// Mixup and CutMix on their way through the loader.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "data/loader.h"
#include "data/transforms/batch_mix.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/allocation_counter.h"
#include "support/log_capture.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::LogCapture;
using test::throws;

constexpr std::int64_t kSamples = 103, kGlobal = 24;
constexpr std::size_t kPixels = 20 * 20;
constexpr int kClasses = 12;  // more than the digits have

LoaderConfig mixed_config(int workers = 1) {
  LoaderConfig config;
  config.train = {.dataset = make_procedural_digits("train", kSamples, 1),
                  .transforms = {.transforms = {RandomCrop(20), RandomErasing(0.5f), Mixup(0.4f),
                                                CutMix(1, 0.5f)},
                                 .normalization = NormMode::MNIST},
                  .batch_size = kGlobal,
                  .global_batch = kGlobal,
                  .shuffle = true,
                  .mixed_classes = kClasses};
  config.seed = 5;
  config.num_workers = workers;
  return config;
}

std::optional<StreamPhase> two_epochs(std::int64_t i) {
  return i < 2 ? std::optional(StreamPhase{Split::TRAIN, i}) : std::nullopt;
}

/// Rows of the stream by their place in it: epoch, then place in the epoch's order.
struct Rows {
  std::vector<float> images = std::vector<float>(2 * kSamples * kPixels);
  std::vector<float> soft = std::vector<float>(2 * kSamples * kClasses);
  std::vector<std::int32_t> labels = std::vector<std::int32_t>(2 * kSamples, -1);

  void take(const Batch& b, std::int64_t global) {
    const std::int64_t first = b.phase.epoch * kSamples + b.step * global + b.sample_offset;
    const auto copy = [&](const char* field, auto* to, std::size_t elements) {
      const auto found = b.fields.find(field);
      if (found == b.fields.end()) return;
      std::memcpy(to + std::size_t(first) * elements, found->second,
                  std::size_t(b.size) * elements * sizeof *to);
    };
    copy("image", images.data(), kPixels);
    copy("label", labels.data(), 1);
    copy("soft_label", soft.data(), kClasses);
  }
  friend bool operator==(const Rows&, const Rows&) = default;
};

Rows rows_of(LoaderConfig config, std::int64_t phase = 0, std::int64_t step = 0) {
  Rows rows;
  for (config.rank = 0; config.rank < config.world_size; ++config.rank) {
    Loader loader(config, two_epochs, phase, step);
    while (const Batch* b = loader.next()) {
      rows.take(*b, config.train.global_batch);
      loader.release(*b);
    }
  }
  return rows;
}

/// The same of the steps as a whole, made here of samples that are not mixed.
Rows expected_rows() {
  LoaderConfig plain = mixed_config();
  std::vector<Transform>& steps = plain.train.transforms.transforms;
  steps.erase(steps.begin() + 2, steps.end());
  Rows rows = rows_of(plain);
  const auto mix =
      *BatchMix::of(mixed_config().train.transforms, {20, 20, 1}, DType::FP32, kClasses);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t place = 0; place < kSamples; place += kGlobal) {
      const std::int64_t count = std::min(kGlobal, kSamples - place);
      const auto first = std::size_t(epoch * kSamples + place), end = first + std::size_t(count);
      std::vector<float> images(rows.images.begin() + std::ptrdiff_t(first * kPixels),
                                rows.images.begin() + std::ptrdiff_t(end * kPixels));
      images.insert(images.end(), images.end() - std::ptrdiff_t(kPixels), images.end());
      std::vector<std::int32_t> labels(rows.labels.begin() + std::ptrdiff_t(first),
                                       rows.labels.begin() + std::ptrdiff_t(end));
      labels.push_back(labels.back());
      mix.apply({.images = images.data(),
                 .labels = labels.data(),
                 .soft_labels = rows.soft.data() + first * kClasses,
                 .count = count},
                pixel::batch_address(5, epoch, place));
      std::copy_n(images.begin(), std::size_t(count) * kPixels,
                  rows.images.begin() + std::ptrdiff_t(first * kPixels));
      std::copy_n(labels.begin(), count, rows.labels.begin() + std::ptrdiff_t(first));
    }
  }
  return rows;
}

TEST(MixedLoaderTest, StepsAreMixedAsAWholeWhateverDoesIt) {
  const Rows want = expected_rows();
  for (std::size_t i = 0; i < want.labels.size(); ++i) {
    const auto row = want.soft.begin() + std::ptrdiff_t(i * kClasses);
    EXPECT_NEAR(std::accumulate(row, row + kClasses, 0.0f), 1, 1e-6f);
    EXPECT_EQ(*std::max_element(row, row + kClasses), row[want.labels[i]]);
  }
  for (const auto& [workers, readers, slots] :
       {std::tuple{1, 0, 3}, {2, 0, 2}, {4, 3, 5}, {7, 1, 3}}) {
    LoaderConfig config = mixed_config(workers);
    config.num_readers = readers;
    config.num_slots = slots;
    EXPECT_TRUE(rows_of(config) == want) << workers << " workers, " << readers << " readers";
  }
}

TEST(MixedLoaderTest, NeitherRanksNorMicroBatchesChangeAByte) {
  const Rows want = expected_rows();
  for (const auto& [world, micro] : {std::pair{1, 3}, {2, 1}, {3, 2}, {4, 6}, {24, 1}}) {
    LoaderConfig config = mixed_config(2);
    config.world_size = world;
    config.train.batch_size = kGlobal / world / micro;
    EXPECT_TRUE(rows_of(config) == want) << world << " ranks, " << micro << " micro-batches";
  }
}

TEST(MixedLoaderTest, ResumesAnywhere) {
  const Rows whole = expected_rows();
  for (const auto& [phase, step] : {std::pair{0, 3}, {0, 4}, {1, 0}, {1, 2}}) {
    LoaderConfig config = mixed_config(3);
    config.world_size = 2;
    config.train.batch_size = 4;
    const Rows rest = rows_of(config, phase, step);
    const auto first = std::size_t(phase * kSamples + step * kGlobal);
    EXPECT_TRUE(std::equal(whole.images.begin() + std::ptrdiff_t(first * kPixels),
                           whole.images.end(),
                           rest.images.begin() + std::ptrdiff_t(first * kPixels)));
    EXPECT_TRUE(std::equal(whole.soft.begin() + std::ptrdiff_t(first * kClasses), whole.soft.end(),
                           rest.soft.begin() + std::ptrdiff_t(first * kClasses)));
    EXPECT_EQ(rest.labels[first], whole.labels[first]);
    if (first > 0) {
      EXPECT_EQ(rest.labels[first - 1], -1);
    }
  }
}

/// Digits of which some cannot be read.
class BrokenDigits final : public Dataset {
 public:
  explicit BrokenDigits(std::vector<std::int64_t> bad) : bad_(std::move(bad)) {}
  std::string name() const override { return "broken"; }
  std::int64_t num_samples() const override { return digits_->num_samples(); }
  std::vector<Field> fields() const override { return digits_->fields(); }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    if (std::find(bad_.begin(), bad_.end(), id) != bad_.end())
      throw DataError("sample " + std::to_string(id) + " is damaged");
    digits_->read(id, out);
  }

 private:
  const std::shared_ptr<const Dataset> digits_ = make_procedural_digits("train", kSamples, 1);
  const std::vector<std::int64_t> bad_;
};

TEST(MixedLoaderTest, BadSamplesAreReplacedBeforeTheyAreMixed) {
  std::vector<std::int64_t> bad(40);
  std::iota(bad.begin(), bad.end(), 20);
  for (const BadSamplePolicy policy : {BadSamplePolicy::SKIP, BadSamplePolicy::REPLACE}) {
    std::optional<Rows> want;
    for (const int world : {1, 2}) {
      for (const int workers : {1, 4}) {
        const LogCapture log;
        LoaderConfig config = mixed_config(workers);
        config.world_size = world;
        config.train.batch_size = kGlobal / world;
        config.train.dataset = std::make_shared<BrokenDigits>(bad);
        config.bad_samples = std::make_shared<BadSamples>(policy, 40);
        const Rows rows = rows_of(config);
        if (!want || (policy == BadSamplePolicy::SKIP && workers == 1)) want = rows;
        EXPECT_TRUE(rows == *want) << world << " ranks, " << workers << " workers";
        EXPECT_EQ(config.bad_samples->count(), 40);
      }
    }
  }
  LoaderConfig config = mixed_config(2);
  config.train.dataset = std::make_shared<BrokenDigits>(bad);
  EXPECT_TRUE(throws<DataError>([&] { rows_of(config); }, "is damaged"));
}

TEST(MixedLoaderTest, AStepAllocatesNothing) {
  LoaderConfig config = mixed_config(2);
  config.train.batch_size = 6;
  Loader loader(config, [](std::int64_t i) { return std::optional(StreamPhase{Split::TRAIN, i}); });
  for (int i = 0; i < 60; ++i) loader.release(*loader.next());
  const test::AllocationCounter counter;
  for (int i = 0; i < 200; ++i) loader.release(*loader.next());
  EXPECT_EQ(counter.count(), 0);
  EXPECT_GT(loader.stats()[Stage::MIX], 0);
}

TEST(MixedLoaderTest, RefusesWhatCannotBeMixed) {
  const auto refused = [](const LoaderConfig& config, const char* why) {
    return throws<InvalidArgument>([&] { Loader(config, two_epochs); }, why);
  };
  LoaderConfig config = mixed_config();
  config.train.mixed_classes = 0;
  EXPECT_TRUE(refused(config, "Mixup(0.4): there are no classes"));
  config = mixed_config();
  config.val = config.train;
  EXPECT_TRUE(refused(config, "only training batches are"));
  config = mixed_config();
  config.train.dataset =
      make_tensor_dataset({{"image", Tensor({kSamples, 28, 28, 1}, DType::UINT8)}});
  EXPECT_TRUE(refused(config, "no field \"label\" that is a class number"));
  config.train.mixed_classes = 3;  // fewer than the digits
  config.train.dataset = make_procedural_digits("train", kSamples, 1);
  EXPECT_TRUE(throws<DataError>([&] { rows_of(config); }, "the model has 3 outputs"));
}

}  // namespace
}  // namespace tr::data
