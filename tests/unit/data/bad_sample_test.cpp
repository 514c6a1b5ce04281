// SPDX-License-Identifier: Apache-2.0
// Samples that cannot be read, on their way through the loader.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "data/loader.h"
#include "renaissance/core/error.h"
#include "support/log_capture.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::LogCapture;
using test::throws;

/// Sample k holds its number; some cannot be read.
class Numbers final : public Dataset {
 public:
  Numbers(std::int64_t n, std::set<std::int64_t> bad) : n_(n), bad_(std::move(bad)) {}
  std::int64_t num_samples() const override { return n_; }
  std::vector<Field> fields() const override {
    return {{"image", {{2, 2, 1}, DType::UINT8}}, {"label", {Shape{}, DType::INT32}}};
  }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    if (bad_.contains(id)) throw DataError("file " + std::to_string(id) + " is damaged");
    std::memset(out[0], int(id), 4);
    const std::int32_t label = std::int32_t(id);
    std::memcpy(out[1], &label, sizeof label);
  }
  std::string name() const override { return "numbers"; }

 private:
  std::int64_t n_;
  std::set<std::int64_t> bad_;
};

struct Stream {
  std::vector<std::vector<std::int32_t>> labels;  // of each batch
  std::vector<std::vector<float>> pixels;         // the first of each row, times 255
};

std::optional<StreamPhase> two_epochs(std::int64_t i) {
  return i < 2 ? std::optional(StreamPhase{Split::TRAIN, i}) : std::nullopt;
}

LoaderConfig config_of(std::set<std::int64_t> bad, BadSamplePolicy policy, int workers,
                       std::int64_t limit = 100) {
  LoaderConfig config;
  config.train = {.dataset = std::make_shared<Numbers>(100, std::move(bad)),
                  .batch_size = 12,
                  .global_batch = 12,
                  .shuffle = true};
  config.seed = 3;
  config.num_workers = workers;
  config.bad_samples = std::make_shared<BadSamples>(policy, limit);
  return config;
}

Stream stream_of(const LoaderConfig& config) {
  Loader loader(config, two_epochs);
  Stream stream;
  while (const Batch* b = loader.next()) {
    const auto* label = static_cast<const std::int32_t*>(b->fields.at("label"));
    const auto* image = static_cast<const float*>(b->fields.at("image"));
    stream.labels.emplace_back(label, label + b->size);
    stream.pixels.emplace_back();
    for (std::int64_t i = 0; i < b->size; ++i) {
      stream.pixels.back().push_back(std::round(image[4 * i + 3] * 255));
    }
    loader.release(*b);
  }
  return stream;
}

const std::set<std::int64_t> kBad{0, 7, 8, 41, 99};

TEST(BadSampleTest, SkipGivesABadRowTheNextSoundOneOfItsBatch) {
  const LogCapture log;
  const Stream want = stream_of(config_of({}, BadSamplePolicy::FAIL, 1));
  for (const int workers : {1, 2, 5}) {
    for (const int readers : {0, 2}) {
      LoaderConfig config = config_of(kBad, BadSamplePolicy::SKIP, workers);
      config.num_readers = readers;
      const Stream got = stream_of(config);
      ASSERT_EQ(got.labels.size(), want.labels.size());
      for (std::size_t b = 0; b < got.labels.size(); ++b) {
        const std::vector<std::int32_t>& ids = want.labels[b];
        ASSERT_EQ(got.labels[b].size(), ids.size());  // the batch keeps its size
        for (std::size_t row = 0; row < ids.size(); ++row) {
          std::size_t donor = row;
          while (kBad.contains(ids[donor])) donor = (donor + 1) % ids.size();
          ASSERT_EQ(got.labels[b][row], ids[donor]) << "batch " << b << ", row " << row;
          ASSERT_EQ(got.pixels[b][row], float(ids[donor]));
        }
      }
      EXPECT_EQ(config.bad_samples->count(), 5);
      EXPECT_EQ(config.bad_samples->first().size(), 5u);
    }
  }
}

TEST(BadSampleTest, ReplaceGivesABadRowTheSameSampleAlways) {
  const LogCapture log;
  const Stream want = stream_of(config_of({}, BadSamplePolicy::FAIL, 1));
  std::map<std::int32_t, std::int32_t> stands_in;
  for (const int workers : {1, 3, 4}) {
    const Stream got = stream_of(config_of(kBad, BadSamplePolicy::REPLACE, workers));
    for (std::size_t b = 0; b < got.labels.size(); ++b) {
      for (std::size_t row = 0; row < got.labels[b].size(); ++row) {
        const std::int32_t id = want.labels[b][row], given = got.labels[b][row];
        ASSERT_EQ(got.pixels[b][row], float(given));
        ASSERT_FALSE(kBad.contains(given));
        if (!kBad.contains(id)) {
          ASSERT_EQ(given, id);
        } else {
          ASSERT_EQ(stands_in.try_emplace(id, given).first->second, given) << id;
        }
      }
    }
  }
  EXPECT_EQ(stands_in.size(), kBad.size());
}

TEST(BadSampleTest, ReplacementsDoNotDependOnRanks) {
  const LogCapture log;
  LoaderConfig one = config_of(kBad, BadSamplePolicy::REPLACE, 2);
  std::multiset<std::int32_t> want, got;
  for (const auto& batch : stream_of(one).labels) want.insert(batch.begin(), batch.end());
  for (int rank = 0; rank < 3; ++rank) {
    LoaderConfig config = config_of(kBad, BadSamplePolicy::REPLACE, 2);
    config.train.batch_size = 4;
    config.rank = rank;
    config.world_size = 3;
    for (const auto& batch : stream_of(config).labels) got.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(got, want);
}

TEST(BadSampleTest, CachedValidationSkipsEveryTime) {
  const LogCapture log;
  for (const BadSamplePolicy policy : {BadSamplePolicy::SKIP, BadSamplePolicy::REPLACE}) {
    LoaderConfig config = config_of(kBad, policy, 3);
    const auto passes = [](std::int64_t i) -> std::optional<StreamPhase> {
      return i < 3 ? std::optional(StreamPhase{Split::VAL, i}) : std::nullopt;
    };
    config.val = config.train;
    config.train = {};
    config.val.shuffle = false;
    std::vector<std::vector<std::int32_t>> plain, cached;
    for (auto* labels : {&plain, &cached}) {
      config.val.cache_processed = labels == &cached;
      Loader loader(config, passes);
      while (const Batch* b = loader.next()) {
        const auto* label = static_cast<const std::int32_t*>(b->fields.at("label"));
        labels->emplace_back(label, label + b->size);
        loader.release(*b);
      }
    }
    EXPECT_EQ(plain, cached);
    EXPECT_EQ(plain.size(), 3u * 9u);
  }
}

TEST(BadSampleTest, FailThrowsTheReasonAndTheLimitFails) {
  const LogCapture log;
  EXPECT_TRUE(throws<DataError>([] { stream_of(config_of({41}, BadSamplePolicy::FAIL, 3)); },
                                "file 41 is damaged"));
  EXPECT_TRUE(throws<DataError>([] { stream_of(config_of(kBad, BadSamplePolicy::SKIP, 3, 4)); },
                                "5 samples cannot be read, bad_sample_limit is 4"));
  std::set<std::int64_t> all;
  for (std::int64_t id = 0; id < 100; ++id) all.insert(id);
  EXPECT_TRUE(throws<DataError>([&] { stream_of(config_of(all, BadSamplePolicy::SKIP, 2, 1000)); },
                                "none of the 12 samples of a batch can be read"));
  EXPECT_TRUE(
      throws<DataError>([&] { stream_of(config_of(all, BadSamplePolicy::REPLACE, 2, 1000)); },
                        "nor 16 others that were drawn in its place"));
}

}  // namespace
}  // namespace tr::data
