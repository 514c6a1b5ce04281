// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/executor.h"
#include "data/loader.h"
#include "device/communicator.h"
#include "graph/step_tables.h"
#include "task/compiled_run.h"
#include "task/model_state.h"

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
  Rank(const CompiledRun& run, int rank, std::unique_ptr<Communicator> communicator,
       StepBoard& board);
  ~Rank();

  Executor& executor() { return *executor_; }
  ModelState& state() { return *state_; }
  int index() const { return rank_; }

  /// Starts feeding from phase `phase` of the run, step `step` of it.
  void open_stream(std::int64_t phase, std::int64_t step);
  void close_stream();
  /// Takes row numbers from the counters, after they were restored.
  void sync_rows();

  /// One optimizer step: all micro-batches of the stream's next step. `stop` is rank 0's wish.
  StepOutcome train_step(bool stop);
  /// One step of validation; the sums are this rank's.
  Totals eval_step();
  Totals eval_step(data::Loader& loader);

  /// Lets the graphs read this batch.
  void bind(const data::Batch& batch);

  data::LoaderStats loader_stats();
  /// Ends what other ranks wait for, after an exception.
  void abandon();

 private:
  /// The step table's row of this micro-batch; returns the learning rate.
  double fill_row(const data::Batch& batch);

  /// One of the counters at `table`; 0 if the graphs have none.
  std::int64_t counter(std::int64_t table, CounterIndex index) const;
  using ResultRow = std::array<float, kResultColumns>;
  ResultRow result_row(std::int64_t table, std::int64_t row) const;
  Totals totals_of(const ResultRow& row, const data::Batch& batch) const;
  StepOutcome gather(StepOutcome mine, bool stop);

  const CompiledRun& run_;
  const int rank_;
  StepBoard& board_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<ModelState> state_;
  std::unique_ptr<data::Loader> loader_;
  std::vector<std::string> fields_;  // that the graphs read
  std::map<std::string, std::vector<std::byte>>
      zeros_;  // for steps in which this rank has no sample

  // Places in the arena; -1: the graphs have none.
  std::int64_t step_floats_ = -1, step_ints_ = -1, results_ = -1, eval_results_ = -1;
  std::int64_t counters_ = -1, eval_counters_ = -1;
  std::vector<float> row_floats_;  // the row being filled
  std::int64_t row_ = 0, eval_row_ = 0, step_parity_ = 0;
  std::int64_t capacity_ = 1;
};

/// Runs `body(rank)` on every rank, rank 0 in the calling thread. The first exception is rethrown
/// after all have ended; the others are woken by abandon().
void for_each_rank(std::vector<std::unique_ptr<Rank>>& ranks,
                   const std::function<void(Rank&)>& body);

}  // namespace tr
