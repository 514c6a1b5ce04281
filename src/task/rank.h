// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/executor.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "device/communicator.h"
#include "graph/step_tables.h"
#include "task/compiled_run.h"
#include "task/held_data.h"
#include "task/model_state.h"
#include "task/spans.h"

namespace tr {

/// Sums over samples; of one rank, or of all.
struct Totals {
  double loss_sum = 0;
  std::int64_t samples = 0;
  std::int64_t top1 = 0, top5 = 0;

  void add(const Totals& other);
  double mean_loss() const { return samples > 0 ? loss_sum / double(samples) : 0; }
};

/// What one optimizer step gave, over all ranks.
struct StepOutcome {
  Totals totals;
  bool skipped = false;  // a gradient was not finite: nothing changed
  double lr = 0;
  float grad_norm = 0;
  float loss_scale = 1;
  std::int64_t skipped_in_row = 0;  // this one included
  bool stop = false;                // rank 0 asked all ranks to stop after this step
};

/// Where the ranks of one process put their part of a step for the others to add. Double-buffered
/// by the step's parity: one barrier a step is enough.
struct StepBoard {
  struct Part {
    Totals totals;
    bool stop = false;
  };
  explicit StepBoard(int world_size) {
    for (auto& row : rows) row.resize(std::size_t(world_size));
  }
  std::array<std::vector<Part>, 2> rows;
};

/// One rank: its executor, its loader, its place in the stream. Steps allocate nothing.
class Rank {
 public:
  /// `spans`: null, or what is told of the rank's steps.
  Rank(const CompiledRun& run, int rank, std::unique_ptr<Communicator> communicator,
       StepBoard& board, Spans* spans = nullptr);
  ~Rank();

  Executor& executor() { return *executor_; }
  ModelState& state() { return *state_; }
  int index() const { return rank_; }
  /// Samples of the first micro-batch of an epoch: fewer than a batch has where the set is small.
  std::int64_t first_batch_size() const { return train_sampler_->share(0, 0).size; }

  /// Starts feeding from phase `phase` of the run, step `step` of it.
  void open_stream(std::int64_t phase, std::int64_t step);
  void close_stream();
  /// Takes row numbers from the counters, after they were restored.
  void sync_rows();

  /// Every learning rate from the next step on is the schedule's times this.
  void set_lr_factor(double factor) { lr_factor_ = factor; }

  /// Steps of an epoch, all of one phase: [first, first + count).
  struct StepRange {
    std::int64_t epoch = 0, first = 0, count = 1;
  };
  /// Optimizer steps that may be launched before the results of the first are read.
  std::int64_t max_steps() const;
  /// Runs the stream's next steps, each with all its micro-batches. `stop` is rank 0's wish. What
  /// it returns is valid until the next call.
  std::span<const StepOutcome> train_steps(const StepRange& steps, bool stop);
  /// Steps of validation; the sums are this rank's. `loader`: other than the run's stream.
  std::span<const Totals> eval_steps(const StepRange& steps, data::Loader* loader = nullptr);

  /// Lets the graphs read this batch.
  void bind(const data::Batch& batch);
  void bind_zeros();

  /// Predictions by class of this rank's validation since clear_confusion(); empty if the graphs
  /// count none.
  std::vector<std::int32_t> confusion() const;
  void clear_confusion();

  data::LoaderStats loader_stats();
  /// Ends what other ranks wait for, after an exception.
  void abandon();

 private:
  /// What the sampler says of one micro-batch.
  struct MicroBatch {
    std::int64_t step = 0;
    int micro = 0;
    data::Share share;
    std::int64_t global_size = 0;  // samples of its step
  };
  void plan_batches(const data::Sampler& sampler, const StepRange& steps);
  int variant_of(data::Split split, const MicroBatch& batch) const;
  /// Of a column of the step tables: an objective, or all there is.
  const Optimizer& optimizer_of(std::size_t group) const;
  const Scheduler& scheduler_of(std::size_t group) const;
  std::vector<GroupValues> all_group_values() const;
  double lr_of(std::int64_t epoch, std::int64_t step, std::size_t group = 0) const;
  /// What the schedule makes of the momentum, if it moves it.
  std::optional<double> cycled_momentum(std::int64_t epoch, std::int64_t step,
                                        std::size_t group) const;
  /// The step tables' rows of the planned micro-batches.
  void fill_rows(std::int64_t epoch);
  /// Launches the planned micro-batches and reads their rows of results.
  /// @throws DeviceError  naming step and, if they are known, graph and node.
  void run_planned(data::Split split, std::int64_t epoch, data::Loader* loader);
  void launch(data::Split split, std::int64_t epoch, data::Loader* loader);
  void launch_held(data::Split split, std::int64_t epoch);
  void launch_loaded(data::Split split, data::Loader& loader);
  const data::Batch* next_batch(data::Loader& loader);
  /// A micro-batch of training in which this rank has no sample: its graph runs on zeros.
  static bool is_idle(data::Split split, const MicroBatch& batch) {
    return split == data::Split::TRAIN && batch.share.size == 0;
  }
  /// Launches planned micro-batch `index`, which is such a one, and undoes what zeros have made of
  /// running statistics.
  template <typename F>
  void launch_idle(std::size_t index, F&& launch);
  /// Rows [first, first + count) of a table that repeats itself, as contiguous pieces:
  /// f(first row in the table, first of the rows, number).
  template <typename F>
  void for_pieces(std::int64_t first, std::int64_t count, F&& f) const;
  /// One of the counters at `table`; 0 if the graphs have none.
  std::int64_t counter(std::int64_t table, CounterIndex index) const;
  using ResultRow = std::array<float, kResultColumns>;
  void read_results(std::int64_t table, std::int64_t first_row);
  Totals totals_of(const ResultRow& row, std::int64_t samples) const;
  StepOutcome gather(StepOutcome mine, bool stop);
  void write_confusion(const std::vector<std::int32_t>& counts);

  const CompiledRun& run_;
  const int rank_;
  StepBoard& board_;
  Spans* const spans_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<ModelState> state_;
  std::unique_ptr<data::Loader> loader_;
  std::array<std::vector<std::string>, 2> fields_;  // that the graphs of a split read
  std::map<std::string, std::vector<std::byte>>
      zeros_;  // for steps in which this rank has no sample

  // Places in the arena; -1: the graphs have none.
  std::int64_t step_floats_ = -1, step_ints_ = -1, results_ = -1, eval_results_ = -1;
  std::int64_t counters_ = -1, eval_counters_ = -1;
  std::int64_t confusion_ = -1, confusion_elements_ = 0;
  std::size_t columns_ = 0;                // of step_floats
  std::vector<GroupValues> group_values_;  // of its groups
  std::optional<data::Sampler> train_sampler_, val_sampler_;
  std::unique_ptr<HeldData> held_;  // null: the loader feeds
  struct BoundBatch {
    const data::Batch* batch;
    std::int64_t launch;
  };
  std::vector<BoundBatch> bound_;  // oldest first
  // Of the steps that run; kept so that they are allocated once.
  std::vector<MicroBatch> planned_;
  std::vector<float> floats_;
  std::vector<std::int64_t> ints_, positions_;
  std::vector<ResultRow> rows_;
  std::vector<StepOutcome> outcomes_;
  std::vector<Totals> totals_;
  std::int64_t row_ = 0, eval_row_ = 0, step_parity_ = 0, skipped_in_row_ = 0;
  std::int64_t capacity_ = 1;
  int freeze_state_ = 0;  // of the steps that run
  double lr_factor_ = 1;
};

/// Runs `body(rank)` on every rank, rank 0 in the calling thread. The first exception is rethrown
/// after all have ended; the others are woken by abandon().
void for_each_rank(std::vector<std::unique_ptr<Rank>>& ranks,
                   const std::function<void(Rank&)>& body);

}  // namespace tr
