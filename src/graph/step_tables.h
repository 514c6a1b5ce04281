// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tr {

// Layout of the small persistent tensors that every step reads and writes: the contract between the
// graph builder, the kernels of both devices and the task that fills and reads them.
// docs/execution.md draws it.

/// INT64 [kNumCounters], "counters" of training, "eval_counters" of validation.
enum CounterIndex : int {
  kCounterRow = 0,      // micro-steps launched: row (kCounterRow % capacity) of tables and results
  kCounterStep = 1,     // optimizer steps begun: addresses draws; always advances
  kCounterUpdates = 2,  // steps that changed the weights: Adam's t, EMA
  kCounterSkipped = 3,  // steps skipped for a non-finite gradient
  kCounterSkippedInRow = 4,  // of them, since the last good one
  kCounterGoodInRow = 5,     // good steps since the last skipped one
  kNumCounters = 8
};

/// FP32 [capacity, step_floats_columns(groups)], "step_floats": row header, then four columns a
/// parameter group.
enum StepFloatIndex : int {
  kFloatInvWeight = 0,  // 1 / valid samples in the global batch
  kFloatHeader = 2
};
enum GroupColumn : int {
  kGroupLr = 0,
  kGroupDecay = 1,
  kGroupMomentum = 2,  // of sgd; beta1 of adam
  kGroupBeta2 = 3,     // of adam
  kGroupColumns = 4
};
constexpr int step_floats_columns(int num_groups) {
  return kFloatHeader + kGroupColumns * num_groups;
}

/// INT64 [capacity, kStepInts], "step_ints".
enum StepIntIndex : int {
  kIntSampleOffset = 0,  // place of this micro-batch's first sample in the global batch
  kIntEpoch = 1,
  kIntSeed = 2,
  kStepInts = 4
};

/// FP32 [capacity, kResultColumns], "results" and "eval_results": one row a micro-step, written by
/// record_step.
enum ResultColumn : int {
  kResultLossSum = 0,  // sum of the samples' losses, unscaled
  kResultTop1 = 1,     // number of samples whose label is the largest output
  kResultTop5 = 2,
  kResultFoundInf = 3,   // 1: this step changed nothing
  kResultGradNorm = 4,   // of the unscaled, reduced gradient; 0 where not measured
  kResultLossScale = 5,  // before this step's update of it
  kResultColumns = 8
};

}  // namespace tr
