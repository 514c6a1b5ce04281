// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/executor.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "task/compiled_run.h"

namespace tr {

/// Why the run's data cannot stay in the device's memory, whatever its arena takes; empty if they
/// can.
std::string why_not_held(const CompiledRun& run);
/// The same where the run may take `budget_bytes`, its arena included.
std::string why_not_on_device(const CompiledRun& run, std::int64_t budget_bytes);

/// Bytes that the run's sets take there.
std::int64_t held_bytes(const CompiledRun& run);

/// The run's sets in the device's memory, and the steps that are fed from them.
class HeldData {
 public:
  /// Reads each set once and hands it to the executor. @throws DataError, OutOfMemory
  HeldData(const CompiledRun& run, Executor& executor);

  /// One step of `variant` for each position: place of the micro-batch's first sample in the order
  /// of the epoch.
  void run(data::Split split, int variant, std::int64_t epoch,
           std::span<const std::int64_t> positions);

 private:
  struct Held {
    int number = -1;  // of the executor's split
    ResidentSplit split;
  };
  void hold(const CompiledRun& run, data::Split split);

  Executor& executor_;
  Held train_, val_;
  std::vector<FeedRow> rows_;
};

}  // namespace tr
