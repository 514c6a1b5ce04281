// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "core/clock.h"
#include "renaissance/core/types.h"
#include "renaissance/task/progress.h"
#include "renaissance/task/result.h"
#include "task/rank.h"

namespace tr {

/// Hands an event to the sink.
void emit_progress(ProgressEvent::Kind kind, std::string text);
/// False if the sink was taken away: nothing needs to be put into words then.
bool progress_is_shown();

/// Figures of the step under way, written by the loop, read by the timer: relaxed atomics, so that
/// a step waits for nobody.
struct LiveFigures {
  std::atomic<int> epoch{0};
  std::atomic<std::int64_t> step{0};    // within the epoch
  std::atomic<std::int64_t> images{0};  // of this epoch, so far
  std::atomic<double> loss_sum{0};
  std::atomic<std::int64_t> samples{0};
  std::atomic<std::int64_t> top1{0};
  std::atomic<double> lr{0};
  std::atomic<bool> validating{false};
};

/// Shows a run: a line under way from a timer thread, a table of epochs.
class ProgressMeter {
 public:
  struct Frame {
    int total_epochs = 1;
    std::int64_t steps_per_epoch = 1;
    std::int64_t peak_bytes = 0;
    Metric columns = Metric::TRAIN_LOSS;
  };
  explicit ProgressMeter(const Frame& frame);
  ~ProgressMeter();

  void begin_epoch(int epoch, std::int64_t first_step);
  void begin_validation();
  void add_step(std::int64_t step, const StepOutcome& outcome, const Totals& epoch_totals);
  void end_epoch(const EpochRecord& record);
  /// The line under way.
  std::string line() const;

 private:
  void loop();
  std::string row(const EpochRecord& record) const;
  std::string head() const;

  const Frame frame_;
  LiveFigures live_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool stop_ = false;
  bool head_shown_ = false;
  Clock::time_point run_start_ = Clock::now(), epoch_start_ = Clock::now();
  std::int64_t done_steps_ = 0;  // of this run, before this epoch
  std::int64_t epoch_first_step_ = 0;
  std::thread thread_;
};

}  // namespace tr
