// SPDX-License-Identifier: Apache-2.0
#include "task/fault_place.h"

#include <gtest/gtest.h>

namespace tr {
namespace {

using data::Split;

TEST(FaultPlace, TrainingStepsAreThoseOfTheEpoch) {
  const NameSteps name = step_names(Split::TRAIN, 1, {{10, 0}, {11, 0}, {12, 0}}, 1);
  EXPECT_EQ(name(0, 3), "steps 11 to 13 of epoch 2");
  EXPECT_EQ(name(2, 1), "step 13 of epoch 2");
  EXPECT_EQ(name(1, 9), "steps 12 to 13 of epoch 2") << "no more than were launched";
}

TEST(FaultPlace, MicroBatchesAreNamedWhereAStepHasSeveral) {
  const NameSteps name = step_names(Split::TRAIN, 0, {{4, 0}, {4, 1}, {5, 0}, {5, 1}}, 2);
  EXPECT_EQ(name(0, 4), "steps 5 to 6 of epoch 1");
  EXPECT_EQ(name(3, 1), "micro-batch 2 of step 6 of epoch 1");
  EXPECT_EQ(name(0, 2), "step 5 of epoch 1");
}

TEST(FaultPlace, ValidationHasNoEpoch) {
  const NameSteps name = step_names(Split::VAL, 0, {{0, 0}, {1, 0}}, 2);
  EXPECT_EQ(name(1, 1), "step 2 of the validation");
  EXPECT_EQ(step_names(Split::VAL, 0, {}, 1)(0, 1), "a step of the validation");
}

}  // namespace
}  // namespace tr
