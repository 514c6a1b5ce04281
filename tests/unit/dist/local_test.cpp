// SPDX-License-Identifier: Apache-2.0
#include "dist/local.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/philox.h"
#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr {
namespace {

using test::throws;

/// Runs f(communicator) on one thread a rank; a rank's communicator ends with its thread. Returns
/// each rank's error message, "" if it had none.
std::vector<std::string> run_ranks(int world_size, const std::function<void(Communicator&)>& f) {
  auto communicators = dist::make_local(world_size);
  std::vector<std::string> errors(static_cast<std::size_t>(world_size));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < communicators.size(); ++r) {
    threads.emplace_back([&errors, &f, r, mine = std::move(communicators[r])]() mutable {
      try {
        f(*mine);
      } catch (const std::exception& error) {
        errors[r] = error.what();
      }
      mine.reset();
    });
  }
  for (std::thread& t : threads) t.join();
  return errors;
}

void expect_no_errors(const std::vector<std::string>& errors) {
  for (std::size_t r = 0; r < errors.size(); ++r) EXPECT_EQ(errors[r], "") << "rank " << r;
}

/// A pause that differs by rank and round, addressed so that a failure can be repeated.
void random_delay(int rank, int round) {
  const auto w =
      DrawAddress{1, DrawPurpose::TEST, std::uint64_t(rank), std::uint64_t(round)}.block(0).v;
  if (w[0] % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(w[1] % 200));
}

std::vector<float> values_of(int rank, int round, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const DrawAddress address{7, DrawPurpose::TEST, std::uint64_t(rank), std::uint64_t(round)};
    values[i] = (uniform01(address.block(std::uint32_t(i)).v[0]) - 0.5f) * 1e3f;
  }
  return values;
}

TEST(SingleCommunicatorTest, ChangesNothing) {
  const auto one = dist::make_single();
  EXPECT_EQ(one->rank(), 0);
  EXPECT_EQ(one->world_size(), 1);
  float x[2] = {1.5f, -2};
  std::int32_t flag = 3;
  one->all_reduce_sum(x, 2);
  one->all_reduce_max(&flag, 1);
  one->barrier();
  EXPECT_EQ(x[0], 1.5f);
  EXPECT_EQ(x[1], -2.0f);
  EXPECT_EQ(flag, 3);
}

class LocalCommunicatorTest : public testing::TestWithParam<int> {};
class SeveralRanksTest : public testing::TestWithParam<int> {};

// Sums added one after the other in the order of ranks, whatever the timing: exact equality.
TEST_P(LocalCommunicatorTest, SumsInTheOrderOfRanks) {
  const int world_size = GetParam();
  expect_no_errors(run_ranks(world_size, [&](Communicator& c) {
    ASSERT_EQ(c.world_size(), world_size);
    const std::int64_t counts[] = {0, 1, 2, 3, 5, 1000, 1024, 4099};
    for (int round = 0; round < 48; ++round) {
      const std::int64_t count = counts[round % 8];
      std::vector<float> data = values_of(c.rank(), round, count);
      std::vector<float> want = values_of(0, round, count);
      for (int r = 1; r < world_size; ++r) {
        const std::vector<float> other = values_of(r, round, count);
        for (std::size_t i = 0; i < want.size(); ++i) want[i] += other[i];
      }
      random_delay(c.rank(), round);
      c.all_reduce_sum(data.data(), count);
      ASSERT_EQ(data, want) << "round " << round;
    }
  }));
}

TEST_P(LocalCommunicatorTest, TakesTheMaximumOfFlags) {
  const int world_size = GetParam();
  expect_no_errors(run_ranks(world_size, [&](Communicator& c) {
    for (int round = 0; round < 50; ++round) {
      std::int32_t flags[2] = {round % world_size == c.rank() ? 1 : 0, -5 - c.rank()};
      random_delay(c.rank(), round);
      c.all_reduce_max(flags, 2);
      ASSERT_EQ(flags[0], 1);
      ASSERT_EQ(flags[1], -5);
    }
  }));
}

TEST_P(LocalCommunicatorTest, NobodyPassesABarrierEarly) {
  const int world_size = GetParam();
  std::atomic<int> arrived{0};
  expect_no_errors(run_ranks(world_size, [&](Communicator& c) {
    for (int round = 1; round <= 100; ++round) {
      random_delay(c.rank(), round);
      ++arrived;
      c.barrier();
      ASSERT_GE(arrived.load(), round * world_size);
    }
  }));
}

TEST_P(SeveralRanksTest, ADyingRankWakesTheOthers) {
  const int world_size = GetParam();
  for (int round = 0; round < 10; ++round) {
    const int victim = round % world_size;
    const auto errors = run_ranks(world_size, [&](Communicator& c) {
      std::vector<float> data(100, 1.0f);
      for (int step = 0;; ++step) {
        random_delay(c.rank(), step);
        if (c.rank() == victim && step == 3 + round) throw DataError("the disk fell off");
        c.all_reduce_sum(data.data(), 100);
      }
    });
    for (int r = 0; r < world_size; ++r) {
      const std::string& error = errors[std::size_t(r)];
      if (r == victim) {
        EXPECT_EQ(error, "the disk fell off");
      } else {
        // The first to leave is the victim, or one whom its death has stopped.
        EXPECT_NE(error.find("has ended while rank " + std::to_string(r)), std::string::npos)
            << error;
      }
    }
  }
}

// Ranks that end one after the other, each after its last collective, disturb nobody.
TEST_P(LocalCommunicatorTest, EndingInOrderIsNoFailure) {
  for (int round = 0; round < 50; ++round) {
    expect_no_errors(run_ranks(GetParam(), [&](Communicator& c) {
      float x = 1;
      c.all_reduce_sum(&x, 1);
      ASSERT_EQ(x, float(c.world_size()));
    }));
  }
}

TEST_P(SeveralRanksTest, DifferentCallsAreRefusedOnEveryRank) {
  const int world_size = GetParam();
  const auto errors = run_ranks(world_size, [&](Communicator& c) {
    std::vector<float> data(8, 1.0f);
    try {
      c.all_reduce_sum(data.data(), c.rank() == 1 ? 7 : 8);
    } catch (const InvalidArgument& error) {
      // The world stays usable: everybody had the same error.
      c.barrier();
      throw;
    }
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error,
              "local communicator: rank 0 calls all_reduce_sum of 8 elements, rank 1 calls "
              "all_reduce_sum of 7");
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, LocalCommunicatorTest, testing::Values(1, 2, 3, 4));
INSTANTIATE_TEST_SUITE_P(Worlds, SeveralRanksTest, testing::Values(2, 3, 4));

TEST(LocalCommunicatorTest, RejectsAnEmptyWorld) {
  EXPECT_TRUE(throws<InvalidArgument>([] { dist::make_local(0); }, "world_size is 0"));
}

}  // namespace
}  // namespace tr
