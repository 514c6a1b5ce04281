// SPDX-License-Identifier: Apache-2.0
#include "data/sample_policy.h"

#include <gtest/gtest.h>

#include <set>

#include "renaissance/core/error.h"
#include "support/log_capture.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::LogCapture;
using test::throws;

TEST(BadSamplesTest, FailThrowsTheReason) {
  BadSamples bad(BadSamplePolicy::FAIL, 100);
  EXPECT_TRUE(throws<DataError>([&] { bad.note("training", 3, "a.jpg", "a.jpg: is cut"); },
                                "a.jpg: is cut"));
}

TEST(BadSamplesTest, CountsASampleOnceAndNamesTheFirstTen) {
  const LogCapture log;
  BadSamples bad(BadSamplePolicy::SKIP, 15);
  for (int round = 0; round < 2; ++round) {
    for (int id = 0; id < 12; ++id) {
      bad.note("training", id, "p" + std::to_string(id), "p" + std::to_string(id) + ": is cut");
    }
  }
  bad.note("validation", 0, "v0", "no reason to name it");
  EXPECT_EQ(bad.count(), 13);
  EXPECT_EQ(bad.first().size(), 10u);
  EXPECT_EQ(bad.first()[9], "training sample 9: p9: is cut");
  EXPECT_EQ(log.count("WARNING bad sample"), 10) << log.text();
  EXPECT_EQ(log.count("bad sample 10 is skipped: training sample 9: p9: is cut; further ones"), 1);
}

TEST(BadSamplesTest, TheLimitFailsTheRunAndNamesTheLast) {
  const LogCapture log;
  BadSamples bad(BadSamplePolicy::REPLACE, 2);
  bad.note("training", 5, "x", "reason");
  bad.note("training", 6, "x", "reason");
  bad.note("training", 6, "x", "reason");
  EXPECT_TRUE(throws<DataError>(
      [&] { bad.note("training", 7, "x.png", "reason"); },
      "3 samples cannot be read, bad_sample_limit is 2; the last one is training sample 7: "
      "reason (x.png)"));
  EXPECT_TRUE(throws<InvalidArgument>([] { BadSamples(BadSamplePolicy::SKIP, -1); }, "is -1"));
}

TEST(ReplacementTest, IsADrawOverTheWholeSet) {
  std::set<std::int64_t> seen;
  for (int attempt = 0; attempt < 400; ++attempt) {
    const std::int64_t id = replacement_for(1, 0, 77, attempt, 50);
    ASSERT_GE(id, 0);
    ASSERT_LT(id, 50);
    seen.insert(id);
  }
  EXPECT_GT(seen.size(), 45u);
  EXPECT_NE(replacement_for(1, 0, 77, 0, 1 << 30), replacement_for(1, 1, 77, 0, 1 << 30));
  EXPECT_NE(replacement_for(1, 0, 77, 0, 1 << 30), replacement_for(2, 0, 77, 0, 1 << 30));
  EXPECT_NE(replacement_for(1, 0, 77, 0, 1 << 30), replacement_for(1, 0, 78, 0, 1 << 30));
  EXPECT_EQ(replacement_for(1, 0, 77, 0, 1 << 30), replacement_for(1, 0, 77, 0, 1 << 30));
}

TEST(RowsToCopyTest, ABadRowGetsTheNextGoodOne) {
  using Copies = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(rows_to_copy({1, 2, 5}, 6), (Copies{{1, 3}, {2, 3}, {5, 0}}));
  EXPECT_EQ(rows_to_copy({0, 3}, 4), (Copies{{0, 1}, {3, 1}}));
  EXPECT_EQ(rows_to_copy({}, 4), Copies{});
  EXPECT_EQ(rows_to_copy({0, 1}, 2), Copies{});
}

}  // namespace
}  // namespace tr::data
