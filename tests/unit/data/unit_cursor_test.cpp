// SPDX-License-Identifier: Apache-2.0
#include "data/unit_cursor.h"

#include <gtest/gtest.h>

#include <set>

namespace tr::data {
namespace {

/// Training passes of 103 samples in steps of 48 = 3 ranks x 2 micro-batches x 8, then validation
/// passes of 20 in steps of 7.
class UnitCursorTest : public ::testing::Test {
 protected:
  UnitCursorTest()
      : train_({.num_samples = 103,
                .batch_size = 8,
                .global_batch = 48,
                .rank = 2,
                .world_size = 3,
                .shuffle = true}),
        val_({.num_samples = 20, .batch_size = 7, .global_batch = 7}) {}

  StreamCursor start(std::int64_t phase = 0) const { return {phases_, {&train_, &val_}, phase, 0}; }

  const PhaseFunction phases_ = [](std::int64_t i) -> std::optional<StreamPhase> {
    if (i >= 6) return std::nullopt;
    return StreamPhase{i % 2 == 0 ? Split::TRAIN : Split::VAL, i / 2};
  };
  const Sampler train_, val_;
};

TEST_F(UnitCursorTest, UnitsCutEveryBatchOnce) {
  for (const std::int64_t rows : {1, 3, 7, 8, 16}) {
    UnitCursor units(start(), {.samples = {rows, rows + 1}});
    StreamCursor batches = start();
    std::int64_t index = 0;
    for (std::int64_t batch = 0; !batches.at_end(); ++batch, batches.advance()) {
      const Share share = batches.share();
      std::int64_t row = 0, units_seen = 0, units_of_batch = 1;
      for (; units_seen < units_of_batch; ++units_seen) {
        ASSERT_TRUE(units.seek(index++));
        const Unit unit = units.unit();
        units_of_batch = unit.units_of_batch;
        EXPECT_EQ(unit.batch, batch);
        EXPECT_EQ(unit.split, batches.phase().split);
        EXPECT_EQ(unit.epoch, batches.phase().epoch);
        EXPECT_EQ(unit.first_row, row);
        EXPECT_EQ(unit.first_position,
                  batches.step() * batches.sampler().config().global_batch + share.offset + row);
        EXPECT_LE(unit.count, unit.split == Split::TRAIN ? rows : rows + 1);
        row += unit.count;
      }
      EXPECT_EQ(row, share.size);
    }
    EXPECT_FALSE(units.seek(index));
  }
}

// Where batches are mixed a part of a step brings along the sample before its first one.
TEST_F(UnitCursorTest, MixedBatchesHaveAPartner) {
  UnitCursor units(start(), {.samples = {3, 4}, .mixes = {true, false}});
  StreamCursor batches = start();
  std::int64_t index = 0, partners = 0;
  for (; !batches.at_end(); batches.advance()) {
    const Share share = batches.share();
    const std::int64_t step_size = batches.sampler().step_size(batches.step());
    std::int64_t rows = 0, units_of_batch = 1;
    bool partner = false;
    for (std::int64_t u = 0; u < units_of_batch; ++u) {
      ASSERT_TRUE(units.seek(index++));
      const Unit unit = units.unit();
      units_of_batch = unit.units_of_batch;
      EXPECT_EQ(unit.batch_size, share.size);
      EXPECT_EQ(unit.step_position, batches.step() * batches.sampler().config().global_batch);
      ASSERT_FALSE(partner) << "it is the last";
      partner = unit.is_partner();
      if (!partner) {
        rows += unit.count;
        continue;
      }
      EXPECT_EQ(unit.count, 1);
      EXPECT_EQ(unit.first_row, share.size);
      const std::int64_t before = share.offset > 0 ? share.offset - 1 : step_size - 1;
      EXPECT_EQ(unit.first_position, unit.step_position + before);
      ++partners;
    }
    EXPECT_EQ(rows, share.size);
    EXPECT_EQ(partner, batches.phase().split == Split::TRAIN && share.size > 0);
  }
  EXPECT_FALSE(units.seek(index));
  EXPECT_GT(partners, 0);
}

TEST_F(UnitCursorTest, SkippingGivesWhatWalkingGives) {
  UnitCursor walker(start(), {.samples = {3, 4}});
  std::vector<Unit> all;
  for (std::int64_t i = 0; walker.seek(i); ++i) all.push_back(walker.unit());
  for (const std::int64_t stride : {2, 5, 17, 40}) {
    UnitCursor skipper(start(), {.samples = {3, 4}});
    for (std::int64_t i = stride / 2; i < std::int64_t(all.size()); i += stride) {
      ASSERT_TRUE(skipper.seek(i));
      const Unit unit = skipper.unit(), &want = all[std::size_t(i)];
      EXPECT_EQ(unit.batch, want.batch);
      EXPECT_EQ(unit.epoch, want.epoch);
      EXPECT_EQ(unit.first_position, want.first_position);
      EXPECT_EQ(unit.first_row, want.first_row);
      EXPECT_EQ(unit.count, want.count);
    }
    EXPECT_FALSE(skipper.seek(std::int64_t(all.size())));
  }
}

}  // namespace
}  // namespace tr::data
