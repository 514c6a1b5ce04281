// SPDX-License-Identifier: Apache-2.0
#include "task/rank.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "algo/schedule.h"
#include "core/check.h"
#include "graph/step_tables.h"
#include "task/sample_check.h"

namespace tr {

void Totals::add(const Totals& other) {
  loss_sum += other.loss_sum;
  samples += other.samples;
  top1 += other.top1;
  top5 += other.top5;
}

Rank::Rank(const CompiledRun& run, int rank, std::unique_ptr<Communicator> communicator,
           StepBoard& board)
    : run_(run), rank_(rank), board_(board), communicator_(std::move(communicator)) {
  const GlobalSetting::Values& global = run.config.global.values();
  executor_ = make_executor(run.device.kind, run.compiled,
                            {.num_threads = global.threads, .communicator = communicator_.get()});
  state_ = std::make_unique<ModelState>(run.compiled, *executor_);
  for (const auto& [field, bytes] : input_fields(run.compiled)) {
    fields_.push_back(field);
    zeros_[field].resize(std::size_t(bytes));
  }
  const auto find = [&](const char* name) { return state_->has_persistent(name); };
  if (find("step_floats")) {
    const TensorType& type = state_->persistent_tensors().at("step_floats")->type;
    capacity_ = type.shape[0];
    row_floats_.resize(std::size_t(type.shape[1]));
    step_floats_ = executor_->place("step_floats");
    if (find("step_ints")) step_ints_ = executor_->place("step_ints");
    results_ = executor_->place("results");
    counters_ = executor_->place("counters");
  }
  if (find("eval_results")) {
    capacity_ = state_->persistent_tensors().at("eval_results")->type.shape[0];
    eval_results_ = executor_->place("eval_results");
    eval_counters_ = executor_->place("eval_counters");
  }
}

Rank::~Rank() = default;

void Rank::open_stream(std::int64_t phase, std::int64_t step) {
  const std::vector<data::StreamPhase>& phases = run_.phases;
  loader_ = std::make_unique<data::Loader>(
      run_.loader_config(rank_),
      [&phases](std::int64_t i) {
        return i < std::int64_t(phases.size()) ? std::optional(phases[std::size_t(i)])
                                               : std::nullopt;
      },
      phase, step);
  sync_rows();
}

void Rank::close_stream() { loader_.reset(); }

void Rank::sync_rows() {
  row_ = counter(counters_, kCounterRow);
  eval_row_ = counter(eval_counters_, kCounterRow);
}

std::int64_t Rank::counter(std::int64_t table, CounterIndex index) const {
  std::int64_t value = 0;
  const auto at = std::int64_t(sizeof value) * index;
  if (table >= 0) executor_->read(table + at, &value, sizeof value);
  return value;
}

double Rank::fill_row(const data::Batch& batch) {
  const std::int64_t row = row_ % capacity_;
  const double rate =
      lr_at(run_.config.train.scheduler, batch.phase.epoch * run_.train_steps + batch.step,
            run_.train_steps, run_.config.train.total_epochs);
  const Optimizer& optimizer = run_.config.train.optimizer;
  row_floats_[kFloatInvWeight] = batch.size > 0 ? float(1.0 / double(batch.global_size)) : 0.0f;
  for (std::size_t c = kFloatHeader; c < row_floats_.size(); c += kGroupColumns) {
    row_floats_[c + kGroupLr] = float(rate);
    row_floats_[c + kGroupDecay] = float(optimizer.weight_decay);
    row_floats_[c + kGroupMomentum] = float(optimizer.momentum);
  }
  const auto bytes = std::int64_t(row_floats_.size() * sizeof(float));
  executor_->write(step_floats_ + row * bytes, row_floats_.data(), bytes);
  if (step_ints_ >= 0) {
    std::array<std::int64_t, kStepInts> ints{};
    ints[kIntSampleOffset] = batch.sample_offset;
    ints[kIntEpoch] = batch.phase.epoch;
    ints[kIntSeed] = std::int64_t(run_.config.global.values().seed);
    executor_->write(step_ints_ + row * std::int64_t(sizeof ints), ints.data(), sizeof ints);
  }
  return rate;
}

void Rank::bind(const data::Batch& batch) {
  for (const std::string& field : fields_) {
    const void* data = nullptr;
    if (batch.size == 0) {
      data = zeros_.find(field)->second.data();
    } else {
      const auto found = batch.fields.find(field);
      TR_CHECK(found != batch.fields.end(), "step: the batch has no field \"{}\"", field);
      data = found->second;
    }
    executor_->bind_input(field, data);
  }
}

Rank::ResultRow Rank::result_row(std::int64_t table, std::int64_t row) const {
  ResultRow values{};
  const auto bytes = std::int64_t(sizeof values);
  executor_->read(table + row % capacity_ * bytes, values.data(), bytes);
  return values;
}

Totals Rank::totals_of(const ResultRow& row, const data::Batch& batch) const {
  if (batch.size == 0) return {};
  return {.loss_sum = double(row[kResultLossSum]),
          .samples = batch.size,
          .top1 = std::int64_t(row[kResultTop1]),
          .top5 = std::int64_t(row[kResultTop5])};
}

StepOutcome Rank::train_step(bool stop) {
  StepOutcome mine;
  for (int micro = 0; micro < run_.batches.accumulate_steps; ++micro) {
    const data::Batch* batch = loader_->next();
    TR_ASSERT(batch && batch->phase.split == data::Split::TRAIN && batch->micro == micro);
    const int variant = run_.variants.train(micro, batch->size);
    mine.lr = fill_row(*batch);
    bind(*batch);
    executor_->run(variant);
    const ResultRow result = result_row(results_, row_++);
    mine.totals.add(totals_of(result, *batch));
    mine.skipped = result[kResultFoundInf] != 0;
    mine.grad_norm = result[kResultGradNorm];
    mine.loss_scale = result[kResultLossScale];
    loader_->release(*batch);
  }
  if (mine.skipped) mine.skipped_in_row = counter(counters_, kCounterSkippedInRow);
  return gather(mine, stop);
}

StepOutcome Rank::gather(StepOutcome mine, bool stop) {
  mine.stop = stop;
  if (run_.batches.world_size == 1) return mine;
  auto& parts = board_.rows[std::size_t(step_parity_++ % 2)];
  parts[std::size_t(rank_)] = {mine.totals, stop};
  communicator_->barrier();
  mine.totals = {};
  for (const StepBoard::Part& part : parts) mine.totals.add(part.totals);
  mine.stop = parts[0].stop;
  return mine;
}

Totals Rank::eval_step() { return eval_step(*loader_); }

Totals Rank::eval_step(data::Loader& loader) {
  const data::Batch* batch = loader.next();
  TR_ASSERT(batch && batch->phase.split == data::Split::VAL);
  const int variant = run_.variants.eval(batch->size);
  bind(*batch);
  executor_->run(variant);
  const Totals totals = totals_of(result_row(eval_results_, eval_row_++), *batch);
  loader.release(*batch);
  return totals;
}

data::LoaderStats Rank::loader_stats() { return loader_->stats(); }

void Rank::abandon() {
  loader_.reset();
  communicator_.reset();
}

void for_each_rank(std::vector<std::unique_ptr<Rank>>& ranks,
                   const std::function<void(Rank&)>& body) {
  std::exception_ptr first;
  std::mutex mutex;
  const auto run_one = [&](Rank& rank) {
    try {
      body(rank);
    } catch (...) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      rank.abandon();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t r = 1; r < ranks.size(); ++r) threads.emplace_back(run_one, std::ref(*ranks[r]));
  run_one(*ranks[0]);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace tr
