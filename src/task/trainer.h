// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "renaissance/task/deep_learning_task.h"
#include "task/checkpoint.h"
#include "task/compiled_run.h"
#include "task/metrics_log.h"
#include "task/progress.h"
#include "task/rank.h"
#include "task/train_state.h"

namespace tr {

/// Runs a compiled training: ranks, epochs, checkpoints, records. Owned by a DeepLearningTask.
class Trainer {
 public:
  /// Takes all memory, sets first weights, and continues from `resumed` if there is one.
  Trainer(CompiledRun run, std::optional<CheckpointFolder::Found> resumed);

  TrainingResult run(DeepLearningTask& task, const Callbacks& callbacks);
  EvalResult evaluate();
  Tensor predict(const Tensor& batch);
  Tensor predict_images(const Tensor& images);
  Tensor fetch(const std::string& name);
  std::string find_nan();
  void cancel() { cancel_ = true; }

  const CompiledRun& compiled() const { return run_; }
  ModelState& state() { return ranks_.front()->state(); }
  std::int64_t arena_bytes() const;

 private:
  void restore(const CheckpointFolder::Found& found);
  void find_phase(bool in_validation);
  void train_phase();
  void end_training_of_epoch();
  void after_step(std::int64_t step, const StepOutcome& outcome);
  void refuse_endless_skipping(const StepOutcome& outcome);
  [[noreturn]] void fail_not_finite(const std::string& what);
  void validate_phase();
  void end_epoch();
  bool is_new_best(const EpochRecord& record);
  bool stop_requested() const;
  void write_checkpoint(bool best);
  /// One pass over the validation set; with own_loader not by run()'s stream.
  EvalResult evaluate_streams(bool own_loader);
  TrainingResult make_result(double seconds);
  /// Feeds the last training batch again, and calls `body` with its variant.
  void with_last_batch(const std::function<void(int variant)>& body);

  CompiledRun run_;
  StepBoard board_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  TrainState progress_;
  std::string digest_;
  std::optional<CheckpointFolder> folder_;
  std::string last_checkpoint_;
  MetricsLog log_;
  std::atomic<bool> cancel_{false};
  bool broken_ = false;       // a run ended with an error: the ranks' state is not to be trusted
  bool interrupted_ = false;  // by cancel() or a signal
  bool in_on_step_ = false;   // the other ranks go on while a callback runs

  // Only while run() lasts.
  DeepLearningTask* task_ = nullptr;
  const Callbacks* callbacks_ = nullptr;
  std::unique_ptr<ProgressMeter> meter_;
};

}  // namespace tr
