// SPDX-License-Identifier: Apache-2.0
// Every optimizer in whole runs on several threads and ranks of a CPU.
#include "correction/optimizer_runs.h"

namespace tr::test {
namespace {

class OptimizerThreads : public OptimizerRunTest {};

TEST_P(OptimizerThreads, DoNotChangeAByte) {
  DeepLearningTask one = task("", 2, 1), three = task("", 2, 3);
  EXPECT_EQ(three.compile(CompileInfo::NONE).run().weights_sha256,
            one.compile(CompileInfo::NONE).run().weights_sha256);
}

// The parts of a step are summed in the order of the ranks, whoever holds them.
TEST_P(OptimizerThreads, AsRanksHaveTheBytesOfMicroBatches) {
  const auto weights = [&](const char* key) {
    DeepLearningTask made = task("", 1);
    made.set("local_batch_size", "7").set(key, "2").compile(CompileInfo::NONE);
    return made.run().weights_sha256;
  };
  EXPECT_EQ(weights("cpu_ranks"), weights("accumulate_steps"));
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerThreads, testing::ValuesIn(optimizer_rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tr::test
