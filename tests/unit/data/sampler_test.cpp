// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::throws;

std::vector<std::int64_t> full_order(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch,
                                     std::uint64_t split) {
  const Permutation p = make_permutation(size, seed, epoch, split);
  std::vector<std::int64_t> order(size);
  for (std::uint64_t i = 0; i < size; ++i) order[i] = std::int64_t(p(i));
  return order;
}

void expect_bijection(const std::vector<std::int64_t>& order) {
  std::vector<bool> seen(order.size());
  for (const std::int64_t id : order) {
    ASSERT_GE(id, 0);
    ASSERT_LT(id, std::int64_t(order.size()));
    ASSERT_FALSE(seen[std::size_t(id)]) << "sample " << id << " occurs twice";
    seen[std::size_t(id)] = true;
  }
}

TEST(PermutationTest, IsABijectionForEverySmallSize) {
  for (std::uint64_t size = 1; size <= 400; ++size) {
    SCOPED_TRACE(size);
    expect_bijection(full_order(size, size * 7, size % 5, size % 2));
  }
}

TEST(PermutationTest, IsABijectionForRealSizes) {
  for (const std::uint64_t size : {60000u, 65536u, 65537u, 1281167u}) {
    SCOPED_TRACE(size);
    expect_bijection(full_order(size, 0, 3, 0));
  }
}

TEST(PermutationTest, ReachesHugeSizes) {
  const std::uint64_t size = std::uint64_t(1) << 62;
  const Permutation p = make_permutation(size, 1, 2, 0);
  EXPECT_GE(std::uint64_t(p.rows) * p.columns, size);
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_LT(p(size - 1 - i * 12345), size);
}

// Frozen: a checkpoint of any version resumes in this order (docs/determinism.md).
TEST(PermutationTest, GoldenOrders) {
  using Order = std::vector<std::int64_t>;
  EXPECT_EQ(full_order(10, 0, 0, 0), (Order{6, 7, 3, 9, 4, 1, 2, 8, 0, 5}));
  EXPECT_EQ(full_order(10, 0, 1, 0), (Order{9, 0, 2, 3, 5, 1, 7, 8, 4, 6}));
  EXPECT_EQ(full_order(10, 0, 0, 1), (Order{6, 8, 5, 1, 7, 9, 4, 3, 2, 0}));
  EXPECT_EQ(full_order(10, 123, 0, 0), (Order{0, 4, 3, 6, 9, 5, 7, 2, 8, 1}));
  const Order mnist = full_order(60000, 123, 4, 0);
  EXPECT_EQ(Order(mnist.begin(), mnist.begin() + 8),
            (Order{19464, 17295, 6583, 42260, 55315, 7451, 6193, 29712}));
}

// Pearson's statistic over all (place, sample) pairs; its mean is (n - 1)^2, its deviation sqrt(2)
// (n - 1).
TEST(PermutationTest, EverySampleStandsAnywhere) {
  constexpr std::uint64_t kSize = 23;
  constexpr int kEpochs = 4000;
  std::vector<std::vector<int>> counts(kSize, std::vector<int>(kSize));
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = full_order(kSize, 5, std::uint64_t(epoch), 0);
    for (std::size_t i = 0; i < kSize; ++i) ++counts[i][std::size_t(order[i])];
  }
  const double expected = double(kEpochs) / kSize;
  double chi2 = 0;
  for (const auto& row : counts) {
    for (const int n : row) chi2 += (n - expected) * (n - expected) / expected;
  }
  const double mean = (kSize - 1.0) * (kSize - 1.0);
  EXPECT_LT(std::abs(chi2 - mean), 5 * std::sqrt(2.0) * (kSize - 1.0));
}

TEST(PermutationTest, AllOrdersOfFourAreAboutEquallyFrequent) {
  std::map<std::vector<std::int64_t>, int> counts;
  for (int epoch = 0; epoch < 24000; ++epoch) ++counts[full_order(4, 9, std::uint64_t(epoch), 0)];
  ASSERT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 6 * 31);  // 6 deviations
}

struct SplitCase {
  std::int64_t num_samples, batch_size;
  int world_size, num_micro;
  bool drop_last;
};

class SamplerTest : public testing::TestWithParam<SplitCase> {};

TEST_P(SamplerTest, NoSampleIsLostOrDoubledOverRanks) {
  const SplitCase& c = GetParam();
  const std::int64_t global = c.batch_size * c.world_size * c.num_micro;
  std::vector<int> seen(std::size_t(c.num_samples));
  std::int64_t valid = 0;
  for (int rank = 0; rank < c.world_size; ++rank) {
    const Sampler sampler({.num_samples = c.num_samples,
                           .batch_size = c.batch_size,
                           .global_batch = global,
                           .rank = rank,
                           .world_size = c.world_size,
                           .shuffle = true,
                           .drop_last = c.drop_last,
                           .seed = 3});
    ASSERT_EQ(sampler.num_micro(), c.num_micro);
    const Permutation order = sampler.order(6);
    for (std::int64_t step = 0; step < sampler.num_steps(); ++step) {
      if (rank == 0) valid += sampler.step_size(step);
      for (int micro = 0; micro < c.num_micro; ++micro) {
        const Share share = sampler.share(step, micro);
        ASSERT_LE(share.size, c.batch_size);
        for (std::int64_t i = 0; i < share.size; ++i) {
          ++seen[std::size_t(sampler.sample_at(order, step * global + share.offset + i))];
        }
      }
    }
  }
  const std::int64_t expected = c.drop_last ? c.num_samples / global * global : c.num_samples;
  EXPECT_EQ(valid, expected);
  std::int64_t total = 0;
  for (const int n : seen) {
    EXPECT_LE(n, 1);
    total += n;
  }
  EXPECT_EQ(total, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Splits, SamplerTest,
    testing::Values(SplitCase{10, 3, 1, 1, false}, SplitCase{10, 3, 1, 1, true},
                    SplitCase{1, 8, 4, 2, false}, SplitCase{103, 4, 3, 2, false},
                    SplitCase{103, 4, 3, 2, true}, SplitCase{96, 4, 3, 2, false},
                    SplitCase{60000, 200, 1, 1, false}, SplitCase{7, 7, 1, 1, true}));

TEST(SamplerTest, WithoutShuffleKeepsTheOrder) {
  const Sampler sampler({.num_samples = 9, .batch_size = 4, .global_batch = 4});
  EXPECT_EQ(sampler.num_steps(), 3);
  EXPECT_EQ(sampler.share(2, 0).size, 1);
  for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(sampler.sample_at(sampler.order(1), i), i);
}

TEST(SamplerTest, RefusesWhatCannotWork) {
  const auto make = [](SamplerConfig config) { return [config] { Sampler{config}; }; };
  EXPECT_TRUE(throws<InvalidArgument>(make({.num_samples = 0}), "0 samples"));
  EXPECT_TRUE(
      throws<InvalidArgument>(make({.num_samples = 5, .batch_size = 0}), "batch_size is 0"));
  EXPECT_TRUE(throws<InvalidArgument>(make({.num_samples = 5, .batch_size = 2, .global_batch = 3}),
                                      "global_batch is 3"));
  EXPECT_TRUE(throws<InvalidArgument>(make({
                                          .num_samples = 5,
                                          .rank = 2,
                                          .world_size = 2,
                                      }),
                                      "rank 2"));
  EXPECT_TRUE(throws<InvalidArgument>(
      make({.num_samples = 5, .batch_size = 8, .global_batch = 8, .drop_last = true}),
      "drop_last leaves no batch"));
}

}  // namespace
}  // namespace tr::data
