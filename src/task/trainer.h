// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/task/deep_learning_task.h"
#include "task/checkpoint.h"
#include "task/compiled_run.h"
#include "task/metrics_log.h"
#include "task/progress.h"
#include "task/rank.h"
#include "task/spans.h"
#include "task/step_times.h"
#include "task/train_state.h"

namespace tr {

/// A step of the run.
struct StepPlace {
  data::StreamPhase phase;
  std::int64_t step = 0;
};

/// Runs a compiled training: ranks, epochs, checkpoints, records. Owned by a DeepLearningTask.
class Trainer {
 public:
  /// Takes all memory, sets first weights, and continues from `resumed` if there is one.
  Trainer(CompiledRun run, std::optional<CheckpointFolder::Found> resumed);

  /// `cancel` ends the run when it is or becomes true; it is false afterwards.
  TrainingResult run(DeepLearningTask& task, const Callbacks& callbacks, std::atomic<bool>& cancel);
  bool is_running() const { return meter_ != nullptr; }
  EvalResult evaluate();
  Tensor predict(const Tensor& batch);
  Tensor predict_images(const Tensor& images);
  Tensor predict_pictures(const std::vector<std::string>& paths);
  Tensor fetch(const std::string& name);
  void scale_lr(double factor);
  std::string find_nan();
  std::vector<OpTime> profile();
  std::vector<VariantTimes> step_times() const;
  std::string graph(GraphFormat format) const;
  DeviceMemory memory() const;

  const CompiledRun& compiled() const { return run_; }
  ModelState& state() { return ranks_.front()->state(); }
  std::int64_t arena_bytes() const;

 private:
  /// What the model takes for an image.
  const TensorType& image_type(std::string_view who) const;
  /// predict() of a set's images, through the validation transforms; `who` asks.
  Tensor predict_set(const std::shared_ptr<const Dataset>& set, std::string_view who);
  void restore(const CheckpointFolder::Found& found);
  void find_phase(bool in_validation);
  void train_phase();
  void end_training_of_epoch();
  void after_step(std::int64_t step, const StepOutcome& outcome);
  /// Steps up to the phase's end or a wish to stop. Returns the last one's outcome if it is to be
  /// looked at first.
  std::optional<StepOutcome> run_steps();
  void run_steps_alone(Rank& rank);
  std::int64_t steps_until_pause(const Rank& rank) const;
  std::int64_t epoch_index() const;
  void validate_phase();
  void end_epoch();
  bool is_new_best(const EpochRecord& record);
  /// What the epoch's metrics make of the learning rate and of the run's end.
  void watch_metrics(const EpochRecord& record);
  /// The run's end: weights of the best epoch, if they are asked for.
  void restore_best_model();
  void apply_lr_factor();
  bool stop_requested() const;
  void write_checkpoint(bool best);
  /// Gives every rank the running statistics of rank 0.
  void share_buffers();
  /// One pass over the validation set; with own_loader not by run()'s stream.
  EvalResult evaluate_streams(bool own_loader);
  ConfusionMatrix confusion() const;
  TrainingResult make_result(double seconds);

  // Times (timing.cpp).
  void begin_timing();
  /// A step of training has ended.
  void count_timed_step();
  void end_timing();
  void write_trace() const;

  // Faults (find_fault.cpp).
  StepPlace last_step() const;
  /// False: the next micro-batch is of no interest.
  using ReplayBody = std::function<bool(Executor& executor, int variant)>;
  /// Feeds the last training step, or any one of validation, to a rank again: binds each of its
  /// micro-batches and calls `body` instead of running it.
  void replay(const StepPlace& place, int rank, const ReplayBody& body);
  /// The first sample of the step, over all ranks, with a value that is not finite; empty if none.
  std::string bad_input(const StepPlace& place);
  /// The same, or the first parameter or layer; empty if all are finite.
  std::string find_fault(const StepPlace& place);
  /// True if a skipped step is no matter of the loss scale; alike on all ranks.
  bool is_suspect(const StepOutcome& outcome) const;
  /// Throws unless the last step, a suspect one, is a loss scale's overflow after all.
  void judge_skipped_step(const StepOutcome& outcome);
  void name_overflow(const StepOutcome& outcome);
  [[noreturn]] void fail_not_finite(const std::string& what);
  /// A validation whose loss is not finite: throws if a sample is at fault, else warns.
  void judge_validation(const EvalResult& result, const StepPlace& place);

  CompiledRun run_;
  Spans spans_;
  std::int64_t timed_left_ = 0;  // steps
  int num_named_overflows_ = 0;
  std::optional<float> replayed_loss_scale_;  // of the step that replay() feeds again
  std::vector<StepTiming> timings_;
  StepBoard board_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  TrainState progress_;
  std::string digest_;
  std::optional<CheckpointFolder> folder_;
  std::string last_checkpoint_;
  MetricsLog log_;
  bool broken_ = false;       // a run ended with an error: the ranks' state is not to be trusted
  bool interrupted_ = false;  // by cancel() or a signal
  bool in_on_step_ = false;   // the other ranks go on while a callback runs
  struct Feed {               // training phases since the run began
    data::LoaderStats stats;
    double seconds = 0;
  };
  Feed epoch_feed_, run_feed_;
  std::int64_t steps_a_launch_ =
      10;  // what the device does in a fraction of a second; a guess at first

  // Only while run() lasts.
  DeepLearningTask* task_ = nullptr;
  const Callbacks* callbacks_ = nullptr;
  const std::atomic<bool>* cancel_ = nullptr;
  std::unique_ptr<ProgressMeter> meter_;
};

}  // namespace tr
