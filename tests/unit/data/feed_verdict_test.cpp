// SPDX-License-Identifier: Apache-2.0
#include "data/feed_verdict.h"

#include <gtest/gtest.h>

namespace tr::data {
namespace {

TEST(FeedVerdictTest, NamesTheStageThatTookMost) {
  LoaderStats stats{.wait_ms = 500};
  stats[Stage::READ] = 10;
  stats[Stage::DECODE] = 780;
  stats[Stage::TRANSFORM] = 200;
  stats[Stage::NORMALISE] = 10;
  EXPECT_EQ(feed_verdict(stats, 1.0), "input bound: decode 78 %");
  EXPECT_EQ(feed_verdict(stats, 4.9), "input bound: decode 78 %");
  EXPECT_EQ(feed_verdict(stats, 5.1), "compute bound");
  stats[Stage::TRANSFORM] = 3200;
  EXPECT_EQ(feed_verdict(stats, 1.0), "input bound: transform 80 %");
}

TEST(FeedVerdictTest, NothingMeasuredIsNoFault) {
  EXPECT_EQ(feed_verdict({}, 1.0), "compute bound");
  EXPECT_EQ(feed_verdict({.wait_ms = 900}, 1.0), "input bound");
}

TEST(FeedVerdictTest, NamesTheWaysOfDecodingByTheirShares) {
  EXPECT_EQ(decode_shares({}), "");
  DecodeCounts decoded{};
  decoded[std::size_t(DecodePath::PNG)] = 3;
  EXPECT_EQ(decode_shares(decoded), "PNG 100 %");
  decoded[std::size_t(DecodePath::ROWS)] = 180;
  decoded[std::size_t(DecodePath::LIBJPEG)] = 17;
  EXPECT_EQ(decode_shares(decoded), "rows gone to 90 %, libjpeg 8.5 %, PNG 1.5 %");
}

}  // namespace
}  // namespace tr::data
