// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "correction/golden_run.h"

namespace tr::test {

constexpr std::int64_t kRunSamples = 336, kRunBatch = 14;  // 24 steps an epoch

/// Twelve numbers a sample and one of four classes; the numbers of one batch may be a million times
/// as large.
std::shared_ptr<const Dataset> run_samples(std::int64_t bad_batch = -1);

struct OptimizerRow {
  std::string name;
  Optimizer optimizer;
  double lr;
};
void PrintTo(const OptimizerRow& row, std::ostream* out);
std::vector<OptimizerRow> optimizer_rows();

/// Trains fc(24), relu, fc(16), silu, fc(4) with every optimizer.
class OptimizerRunTest : public DeviceTest<kRunDevice, testing::TestWithParam<OptimizerRow>> {
 protected:
  DeepLearningTask task(const std::string& amp, int epochs, int threads = 1,
                        std::int64_t bad_batch = -1) const;
};

}  // namespace tr::test
