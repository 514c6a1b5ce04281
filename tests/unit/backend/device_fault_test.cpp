// SPDX-License-Identifier: Apache-2.0
// What an asynchronous error of a device is put down to, and in which words; no device is needed.
#include "backend/device_fault.h"

#include <gtest/gtest.h>

#include "core/format.h"

namespace tr {
namespace {

std::string epoch_two(std::int64_t first, std::int64_t count) {
  return count == 1 ? fmt::format("step {} of epoch 2", first + 11)
                    : fmt::format("steps {} to {} of epoch 2", first + 11, first + count + 10);
}

std::string node_of(int variant, int node) {
  return fmt::format("node {} of variant {}", node, variant);
}

/// Ten training steps, the last of them partial, then two of validation.
LaunchLog twelve_steps() {
  LaunchLog log;
  log.add(0, 4);
  log.add(0, 5);
  log.add(1, 1);
  log.add(2, 1);
  log.add(2, 1);
  return log;
}

DeviceFault lost() {
  return {.device = "GPU 0", .error = "an illegal memory access", .lost = true};
}

TEST(LaunchLog, KnowsTheVariantOfEachStep) {
  LaunchLog log = twelve_steps();
  EXPECT_EQ(log.num_steps(), 12);
  EXPECT_EQ(log.variants(), (std::vector<int>{0, 1, 2}));
  const int want[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2};
  for (int step = 0; step < 12; ++step) EXPECT_EQ(log.variant_of(step), want[step]) << step;
  EXPECT_EQ(log.variant_of(12), -1);
  EXPECT_EQ(log.variant_of(-1), -1);
  log.clear();
  EXPECT_EQ(log.num_steps(), 0);
  EXPECT_EQ(log.variant_of(0), -1);
  EXPECT_TRUE(log.variants().empty());
}

TEST(DeviceFault, WithoutMarksTheStepsUnderWayAndTheRemedyAreNamed) {
  DeviceFault fault = lost();
  fault.num_steps = 10;
  fault.variants = {"train_base", "train_last"};
  EXPECT_EQ(fault_text(fault, epoch_two),
            "GPU 0: an illegal memory access, in one of steps 11 to 20 of epoch 2, graphs "
            "train_base, train_last; the device is lost to this process, so its nodes cannot be "
            "run again: locate_faults=true names the one that fails");
  fault.num_steps = 1;
  fault.variants = {"train_last"};
  EXPECT_TRUE(fault_text(fault, epoch_two)
                  .starts_with("GPU 0: an illegal memory access, in step 11 of epoch 2, graph "
                               "train_last; the device is lost"));
}

TEST(DeviceFault, TheMarkGivesStepGraphAndTheNodeBehindTheLastThatEnded) {
  // 100 steps had ended when these twelve were launched; the tenth of them began.
  DeviceFault fault = lost();
  fault.num_steps = 12;
  locate_by_mark(fault, {.step = 110, .node = 6}, 100, twelve_steps(), node_of);
  EXPECT_EQ(fault.step, 9);
  fault.variants = {"train_last"};
  EXPECT_EQ(fault_text(fault, epoch_two),
            "GPU 0: an illegal memory access, in step 20 of epoch 2, graph train_last, node 7 of "
            "variant 1; the device is lost to this process");
}

TEST(DeviceFault, AStepThatOnlyBeganFailedWithItsBatch) {
  DeviceFault fault = lost();
  locate_by_mark(fault, {.step = 1, .node = FaultMark::kBegun}, 0, twelve_steps(), node_of);
  EXPECT_EQ(fault.step, 0);
  EXPECT_EQ(fault.node, node_of(0, FaultMark::kInputs));
  locate_by_mark(fault, {.step = 1, .node = FaultMark::kInputs}, 0, twelve_steps(), node_of);
  EXPECT_EQ(fault.node, node_of(0, 0));
}

TEST(DeviceFault, AMarkOfStepsThatHadEndedBlamesNone) {
  for (const std::int64_t step : {std::int64_t{100}, std::int64_t{113}}) {
    DeviceFault fault = lost();
    fault.num_steps = 12;
    locate_by_mark(fault, {.step = step, .node = 3}, 100, twelve_steps(), node_of);
    EXPECT_EQ(fault.step, -1);
    EXPECT_EQ(fault.node, "");
    EXPECT_TRUE(fault_text(fault, epoch_two).ends_with("; the device is lost to this process"))
        << "marks were there, so they are not asked for";
  }
}

TEST(DeviceFault, ALivingDeviceIsSearched) {
  DeviceFault fault{.device = "GPU 1", .error = "too many resources", .num_steps = 3};
  fault.searched = true;
  EXPECT_EQ(fault_text(fault),
            "GPU 1: too many resources, in one of steps 1 to 3 since the last wait; run one by "
            "one, the step's nodes show no error");
  fault.step = 2;
  fault.node = "node 4";
  EXPECT_EQ(fault_text(fault), "GPU 1: too many resources, in step 3 since the last wait, node 4");
  const DeviceFaultError error(fault);
  EXPECT_EQ(error.what(), fault_text(fault));
  EXPECT_EQ(error.fault().step, 2);
}

TEST(DeviceFault, OutsideOfStepsNoStepIsNamed) {
  const DeviceFault fault{.device = "GPU 0", .error = "no memory"};
  EXPECT_EQ(fault_text(fault, epoch_two), "GPU 0: no memory");
}

}  // namespace
}  // namespace tr
