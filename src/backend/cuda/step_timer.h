// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "backend/cuda/ordered_capture.h"
#include "backend/step_timing.h"

namespace tr::cuda {

/// Times of the nodes of steps, from events in graphs of their own: one for each variant, captured
/// when it is first run.
class StepTimer {
 public:
  explicit StepTimer(cudaStream_t stream) : stream_(stream) {}

  /// A step to be timed.
  struct Step {
    int variant = 0;
    int split = -1;  // the held data that feed it; -1: the host does
    PreparedGraph* prepared = nullptr;
    StepFrame frame;
    const StepProbe* marks = nullptr;  // left behind each node too; null: none
  };
  /// Captures the step's graph unless it is there.
  void prepare(const Step& step);
  /// Runs a prepared step once and waits for it. `begin_ns`, on the clock of now_ns(): when the
  /// step began, before the copies of its inputs, which have been enqueued.
  void run(const Step& step, std::int64_t begin_ns);
  std::vector<StepTiming> take() { return std::exchange(timings_, {}); }

 private:
  using Key = std::pair<int, int>;  // variant, split
  struct Timed {
    std::vector<Event> events;  // the begin, behind the batch, behind each node
    GraphExec exec;
  };
  cudaStream_t stream_;
  std::map<Key, Timed> graphs_;
  std::vector<StepTiming> timings_;
};

}  // namespace tr::cuda
