// SPDX-License-Identifier: Apache-2.0
// Order and resume of sets of any size on any number of ranks.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "core/philox.h"
#include "data/loader.h"
#include "data/sampler.h"

namespace tr::data {
namespace {

struct Case {
  std::int64_t samples = 1, batch = 1;
  int world_size = 1, micro = 1, workers = 1;
  std::uint64_t seed = 0;
};

/// Draws of a test's case.
class Dice {
 public:
  explicit Dice(int number) : number_(number) {}
  int up_to(int most) {
    const Philox4 words =
        DrawAddress{11, DrawPurpose::TEST, std::uint64_t(number_), next_++}.block(0);
    return 1 + int(uniform_below(words.v[0], std::uint32_t(most)));
  }

 private:
  int number_;
  std::uint64_t next_ = 0;
};

Case draw(Dice& dice) {
  return {.samples = dice.up_to(150),
          .batch = dice.up_to(9),
          .world_size = dice.up_to(5),
          .micro = dice.up_to(3),
          .workers = dice.up_to(4),
          .seed = std::uint64_t(dice.up_to(1000))};
}

LoaderConfig config_of(const Case& c, int rank) {
  Tensor ids({c.samples}, DType::INT32);
  for (std::int64_t i = 0; i < c.samples; ++i) ids.data<std::int32_t>()[i] = std::int32_t(i);
  LoaderConfig config;
  config.train.dataset = make_tensor_dataset({{"label", ids}});
  config.train.batch_size = c.batch;
  config.train.global_batch = c.batch * c.world_size * c.micro;
  config.train.shuffle = true;
  config.seed = c.seed;
  config.num_workers = c.workers;
  config.rank = rank;
  config.world_size = c.world_size;
  return config;
}

constexpr std::int64_t kEpochs = 3;

std::optional<StreamPhase> epochs(std::int64_t i) {
  return i < kEpochs ? std::optional(StreamPhase{Split::TRAIN, i}) : std::nullopt;
}

/// Sample ids of each micro-batch from a place in the stream on.
std::vector<std::vector<std::int32_t>> batches(const LoaderConfig& config, std::int64_t phase = 0,
                                               std::int64_t step = 0) {
  Loader loader(config, epochs, phase, step);
  std::vector<std::vector<std::int32_t>> all;
  while (const Batch* b = loader.next()) {
    const auto* label = static_cast<const std::int32_t*>(b->fields.at("label"));
    all.emplace_back(label, label + b->size);
    loader.release(*b);
  }
  return all;
}

TEST(OrderTest, NoSampleIsLostOrDoubledOnAnyNumberOfRanks) {
  for (int trial = 0; trial < 60; ++trial) {
    Dice dice(trial);
    const Case c = draw(dice);
    SCOPED_TRACE(testing::Message() << c.samples << " samples, batch " << c.batch << ", "
                                    << c.world_size << " ranks, " << c.micro << " micro-batches");
    std::vector<std::multiset<std::int32_t>> seen(kEpochs);
    for (int rank = 0; rank < c.world_size; ++rank) {
      const auto all = batches(config_of(c, rank));
      const std::size_t per_epoch = all.size() / kEpochs;
      ASSERT_EQ(all.size() % kEpochs, 0u);
      for (std::size_t b = 0; b < all.size(); ++b) {
        seen[b / per_epoch].insert(all[b].begin(), all[b].end());
      }
    }
    for (const std::multiset<std::int32_t>& epoch : seen) {
      ASSERT_EQ(std::int64_t(epoch.size()), c.samples);
      ASSERT_EQ(std::int64_t(std::set(epoch.begin(), epoch.end()).size()), c.samples);
    }
  }
}

TEST(OrderTest, ResumesAtRandomPlacesWithOtherWorkers) {
  for (int trial = 100; trial < 160; ++trial) {
    Dice dice(trial);
    Case c = draw(dice);
    const int rank = dice.up_to(c.world_size) - 1;
    const auto all = batches(config_of(c, rank));
    const std::int64_t steps = std::int64_t(all.size()) / kEpochs / c.micro;
    const std::int64_t phase = dice.up_to(int(kEpochs)) - 1, step = dice.up_to(int(steps)) - 1;
    c.workers = dice.up_to(6);
    const auto rest = batches(config_of(c, rank), phase, step);
    const auto skipped = (phase * steps + step) * c.micro;
    ASSERT_EQ(rest, std::vector(all.begin() + skipped, all.end())) << "trial " << trial;
  }
}

// The order of an epoch needs no table: the last sample of 2^61 is as near as the first.
TEST(OrderTest, SeekingCostsNothingInTheSizeOfTheSet) {
  const Sampler sampler({.num_samples = std::int64_t(1) << 61,
                         .batch_size = 256,
                         .global_batch = 256,
                         .shuffle = true,
                         .seed = 5});
  std::set<std::int64_t> seen;
  for (std::int64_t epoch = 0; epoch < 1000; ++epoch) {
    const Permutation order = sampler.order(epoch * 1000003);
    const std::int64_t id = sampler.sample_at(order, (std::int64_t(1) << 61) - 1 - epoch);
    ASSERT_GE(id, 0);
    ASSERT_LT(id, std::int64_t(1) << 61);
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace tr::data
