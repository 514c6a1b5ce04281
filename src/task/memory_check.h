// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "task/compiled_run.h"

namespace tr {

/// Memory of its device that a run may take.
struct MemoryBudget {
  std::int64_t bytes = 0;
  std::string reason;  // "8.00 GiB are free on GPU 0", "memory_limit allows 1.00 GiB"
};

/// What the key memory_limit and the device leave: on a GPU what is free now, less a reserve for
/// code and captured graphs.
MemoryBudget memory_budget(const Config& config, const ResolvedDevice& device);

/// Bytes that all ranks' arenas take.
std::int64_t arena_bytes(const CompiledRun& run);

/// The planner's answer for other batches: bytes of the arena of one rank.
using PeakOfBatches = std::function<std::int64_t(const BatchPlan&)>;

/// The fewest parts into which the local batch is to be cut (accumulate_steps) so that all arenas
/// take at most `bytes`; 0: not even the smallest micro-batches do. Peaks are taken to fall with
/// the number of parts; cuts for which peak_of throws InvalidArgument are none.
int fitting_cut(const BatchPlan& batches, std::int64_t bytes, const PeakOfBatches& peak_of);

/// Answers for other batches, given that `batches` takes `peak_bytes`: the planner knows engines by
/// rank alone, and those that were measured may want more room, which grows with the local batch:
/// p(b) + (peak_bytes - p(b0)) * b / b0, rounded up, where p(b0) < peak_bytes.
PeakOfBatches scaled_peaks(const BatchPlan& batches, std::int64_t peak_bytes,
                           const PeakOfBatches& peak_of);

/// Refuses a run that does not fit, before any memory is taken. `data_bytes`: what its sets take on
/// the device.
/// @throws OutOfMemory  with what is needed, what there is, the ten largest regions and tensors,
/// a local batch that fits (the largest, if memory grows with the batch), and the accumulate_steps
/// that keep the global batch.
void check_memory(const CompiledRun& run, const MemoryBudget& budget, std::int64_t data_bytes,
                  const PeakOfBatches& peak_of);

}  // namespace tr
