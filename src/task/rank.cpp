// SPDX-License-Identifier: Apache-2.0
#include "task/rank.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "algo/schedule.h"
#include "core/check.h"
#include "core/log.h"
#include "data/split_pipeline.h"
#include "graph/step_tables.h"
#include "task/fault_place.h"
#include "task/sample_check.h"

namespace tr {

void Totals::add(const Totals& other) {
  loss_sum += other.loss_sum;
  samples += other.samples;
  top1 += other.top1;
  top5 += other.top5;
}

namespace {

constexpr int kBatchesInFlight = 2;      // bound and perhaps not yet copied
constexpr std::int64_t kMaxSteps = 512;  // launched at once; half of the tables' rows

std::optional<data::Sampler> sampler_of(const data::LoaderConfig& loader, data::Split split) {
  if (!loader.of(split).dataset) return std::nullopt;
  return data::Sampler(data::sampler_config(loader, split));
}

}  // namespace

Rank::Rank(const CompiledRun& run, int rank, std::unique_ptr<Communicator> communicator,
           StepBoard& board, Spans* spans)
    : run_(run), rank_(rank), board_(board), spans_(spans), communicator_(std::move(communicator)) {
  const GlobalSetting::Values& global = run.config.global.values();
  ExecutorOptions options;
  if (!run.device.gpus.empty()) options.device_index = run.device.gpus.front();
  options.num_threads = global.threads;
  options.communicator = communicator_.get();
  options.locate_faults = run.config.train.locate_faults;
  executor_ = make_executor(run.device.kind, run.compiled, options);
  state_ = std::make_unique<ModelState>(run.compiled, *executor_);
  for (const auto& [field, bytes] : input_fields(run.compiled)) {
    zeros_[field].resize(std::size_t(bytes));
  }
  for (const data::Split split : {data::Split::TRAIN, data::Split::VAL}) {
    const Mode mode = split == data::Split::TRAIN ? Mode::TRAIN : Mode::EVAL;
    for (const auto& [field, bytes] : input_fields(run.compiled, mode))
      fields_[std::size_t(split)].push_back(field);
  }
  const auto find = [&](const char* name) { return state_->has_persistent(name); };
  if (find("step_floats")) {
    const TensorType& type = state_->persistent_tensors().at("step_floats")->type;
    capacity_ = type.shape[0];
    columns_ = std::size_t(type.shape[1]);
    group_values_ = all_group_values();
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
  if (find("eval_confusion")) {
    const Shape& shape = state_->persistent_tensors().at("eval_confusion")->type.shape;
    confusion_elements_ = shape.num_elements();
    confusion_ = executor_->place("eval_confusion");
  }
  const data::LoaderConfig loader = run.loader_config(rank);
  train_sampler_ = sampler_of(loader, data::Split::TRAIN);
  val_sampler_ = sampler_of(loader, data::Split::VAL);
  if (run.data_on_device) held_ = std::make_unique<HeldData>(run, *executor_);
}

Rank::~Rank() { close_stream(); }

void Rank::open_stream(std::int64_t phase, std::int64_t step) {
  sync_rows();
  if (held_) return;
  const std::vector<data::StreamPhase>& phases = run_.phases;
  loader_ = std::make_unique<data::Loader>(
      run_.loader_config(rank_),
      [&phases](std::int64_t i) {
        return i < std::int64_t(phases.size()) ? std::optional(phases[std::size_t(i)])
                                               : std::nullopt;
      },
      phase, step);
  executor_->pin(loader_->slot_memory());
  if (rank_ == 0) log_info("loader: {}", loader_->str());
}

void Rank::close_stream() {
  if (loader_) executor_->unpin(loader_->slot_memory());
  loader_.reset();
}

void Rank::sync_rows() {
  row_ = counter(counters_, kCounterRow);
  eval_row_ = counter(eval_counters_, kCounterRow);
  skipped_in_row_ = counter(counters_, kCounterSkippedInRow);
}

std::int64_t Rank::counter(std::int64_t table, CounterIndex index) const {
  std::int64_t value = 0;
  const auto at = std::int64_t(sizeof value) * index;
  if (table >= 0) executor_->read(table + at, &value, sizeof value);
  return value;
}

void Rank::plan_batches(const data::Sampler& sampler, const StepRange& steps) {
  planned_.clear();
  for (std::int64_t step = steps.first; step < steps.first + steps.count; ++step) {
    for (int micro = 0; micro < sampler.num_micro(); ++micro)
      planned_.push_back({step, micro, sampler.share(step, micro), sampler.step_size(step)});
  }
}

const Optimizer& Rank::optimizer_of(std::size_t group) const {
  const TrainOptions& train = run_.config.train;
  return group < train.objectives.size() ? train.objectives[group].optimizer : train.optimizer;
}

std::vector<GroupValues> Rank::all_group_values() const {
  const std::vector<GroupValues>& own = run_.groups.columns;
  const std::size_t others = (columns_ - kFloatHeader) / kGroupColumns - own.size();
  std::vector<GroupValues> all;
  for (std::size_t group = 0; group < others; ++group)
    all.push_back(values_of(optimizer_of(group)));
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

const Scheduler& Rank::scheduler_of(std::size_t group) const {
  const TrainOptions& train = run_.config.train;
  const bool own = group < train.objectives.size() && train.objectives[group].scheduler;
  return own ? *train.objectives[group].scheduler : train.scheduler;
}

std::optional<double> Rank::cycled_momentum(std::int64_t epoch, std::int64_t step,
                                            std::size_t group) const {
  return momentum_at(scheduler_of(group), epoch * run_.train_steps + step, run_.train_steps,
                     run_.config.train.total_epochs);
}

double Rank::lr_of(std::int64_t epoch, std::int64_t step, std::size_t group) const {
  return lr_factor_ * lr_at(scheduler_of(group), epoch * run_.train_steps + step, run_.train_steps,
                            run_.config.train.total_epochs);
}

template <typename F>
void Rank::for_pieces(std::int64_t first, std::int64_t count, F&& f) const {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t at = (first + done) % capacity_;
    const std::int64_t piece = std::min(count - done, capacity_ - at);
    f(at, done, piece);
    done += piece;
  }
}

void Rank::fill_rows(std::int64_t epoch) {
  floats_.assign(planned_.size() * columns_, 0.0f);
  ints_.assign(planned_.size() * kStepInts, 0);
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    const MicroBatch& batch = planned_[i];
    float* floats = floats_.data() + i * columns_;
    floats[kFloatInvWeight] = batch.share.size > 0 ? float(1.0 / double(batch.global_size)) : 0.0f;
    for (std::size_t c = kFloatHeader, group = 0; c < columns_; c += kGroupColumns, ++group) {
      floats[c + kGroupLr] = float(lr_of(epoch, batch.step, group));
      const GroupValues& values = group_values_[group];
      floats[c + kGroupDecay] = float(values.decay);
      floats[c + kGroupMomentum] =
          float(cycled_momentum(epoch, batch.step, group).value_or(values.momentum));
      floats[c + kGroupBeta2] = float(values.beta2);
    }
    std::int64_t* ints = ints_.data() + i * kStepInts;
    ints[kIntSampleOffset] = batch.share.offset;
    ints[kIntEpoch] = epoch;
    ints[kIntSeed] = std::int64_t(run_.config.global.values().seed);
  }
  const auto float_bytes = std::int64_t(columns_ * sizeof(float));
  constexpr auto kIntBytes = std::int64_t(kStepInts * sizeof(std::int64_t));
  for_pieces(row_, std::int64_t(planned_.size()), [&](auto at, auto from, auto count) {
    executor_->write(step_floats_ + at * float_bytes,
                     floats_.data() + from * std::int64_t(columns_), count * float_bytes);
    if (step_ints_ < 0) return;
    executor_->write(step_ints_ + at * kIntBytes, ints_.data() + from * kStepInts,
                     count * kIntBytes);
  });
}

void Rank::bind_zeros() {
  for (const auto& [field, zeros] : zeros_) executor_->bind_input(field, zeros.data());
}

void Rank::bind(const data::Batch& batch) {
  for (const std::string& field : fields_[std::size_t(batch.phase.split)]) {
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

void Rank::read_results(std::int64_t table, std::int64_t first_row) {
  rows_.resize(planned_.size());
  constexpr auto kBytes = std::int64_t(sizeof(ResultRow));
  for_pieces(first_row, std::int64_t(rows_.size()), [&](auto at, auto from, auto count) {
    executor_->read(table + at * kBytes, rows_.data() + from, count * kBytes);
  });
}

Totals Rank::totals_of(const ResultRow& row, std::int64_t samples) const {
  if (samples == 0) return {};
  return {.loss_sum = double(row[kResultLossSum]),
          .samples = samples,
          .top1 = std::int64_t(row[kResultTop1]),
          .top5 = std::int64_t(row[kResultTop5])};
}

int Rank::variant_of(data::Split split, const MicroBatch& batch) const {
  const bool training = split == data::Split::TRAIN;
  return training ? run_.variants.train(batch.micro, batch.share.size, freeze_state_)
                  : run_.variants.eval(batch.share.size);
}

void Rank::run_planned(data::Split split, std::int64_t epoch, data::Loader* loader) {
  const bool training = split == data::Split::TRAIN;
  try {
    launch(split, epoch, loader);
    const Spans::Scope scope(spans_, "wait for results");
    read_results(training ? results_ : eval_results_, training ? row_ : eval_row_);
  } catch (const DeviceFaultError& error) {
    std::vector<LaunchedStep> launched;
    for (const MicroBatch& batch : planned_) launched.push_back({batch.step, batch.micro});
    const int num_micro = run_.batches.accumulate_steps;
    throw_as<DeviceError>(
        "{}", fault_text(error.fault(), step_names(split, epoch, std::move(launched), num_micro)));
  }
}

void Rank::launch(data::Split split, std::int64_t epoch, data::Loader* loader) {
  if (held_) {
    launch_held(split, epoch);
  } else {
    launch_loaded(split, loader != nullptr ? *loader : *loader_);
  }
}

template <typename F>
void Rank::launch_idle(std::size_t index, F&& launch) {
  const int micro = planned_[index].micro;
  const Role source = micro == 0 ? Role::BUFFER : Role::BUFFER_NEXT;
  const std::vector<Tensor> before = state_->buffers(source);
  launch();
  if (before.empty()) return;
  state_->set_buffers(Role::BUFFER_NEXT, before);
  if (micro + 1 < run_.batches.accumulate_steps) return;
  ResultRow result;  // the step has taken over what is next, unless it was skipped
  const std::int64_t row = (row_ + std::int64_t(index)) % capacity_;
  executor_->read(results_ + row * std::int64_t(sizeof result), result.data(), sizeof result);
  if (result[kResultFoundInf] == 0) state_->set_buffers(Role::BUFFER, before);
}

/// Steps in a row of the same variant in one go.
void Rank::launch_held(data::Split split, std::int64_t epoch) {
  const bool training = split == data::Split::TRAIN;
  const std::int64_t global = (training ? train_sampler_ : val_sampler_)->config().global_batch;
  for (std::size_t first = 0; first < planned_.size();) {
    const int variant = variant_of(split, planned_[first]);
    positions_.clear();
    for (std::size_t i = first; i < planned_.size(); ++i) {
      const bool alone = is_idle(split, planned_[i]) || is_idle(split, planned_[first]);
      if (variant_of(split, planned_[i]) != variant || (i > first && alone)) break;
      positions_.push_back(planned_[i].step * global + planned_[i].share.offset);
    }
    const Spans::Scope scope(spans_, "launch");
    const auto run = [&] { held_->run(split, variant, epoch, positions_); };
    is_idle(split, planned_[first]) ? launch_idle(first, run) : run();
    first += positions_.size();
  }
}

const data::Batch* Rank::next_batch(data::Loader& loader) {
  const Spans::Scope scope(spans_, "wait for data");
  return loader.next();
}

/// A batch goes back to the loader when the device has taken it over: some launches later, if it
/// can.
void Rank::launch_loaded(data::Split split, data::Loader& loader) {
  bound_.clear();  // a launch that failed may have left some of a loader that is gone
  const auto release_first = [&] {
    const Spans::Scope scope(spans_, "wait for copies");
    executor_->wait_inputs(bound_.front().launch);
    loader.release(*bound_.front().batch);
    bound_.erase(bound_.begin());
  };
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    const MicroBatch& planned = planned_[i];
    const data::Batch* batch = next_batch(loader);
    TR_ASSERT(batch && batch->phase.split == split && batch->micro == planned.micro &&
              batch->size == planned.share.size);
    bind(*batch);
    {
      const Spans::Scope scope(spans_, "launch");
      const auto run = [&] { executor_->run(variant_of(split, planned)); };
      is_idle(split, planned) ? launch_idle(i, run) : run();
    }
    bound_.push_back({batch, executor_->last_launch()});
    if (int(bound_.size()) > kBatchesInFlight) release_first();
  }
  while (!bound_.empty()) release_first();
}

std::int64_t Rank::max_steps() const {
  const bool ahead = run_.device.kind != DeviceKind::CPU && run_.batches.world_size == 1;
  return ahead ? std::max<std::int64_t>(1, kMaxSteps / run_.batches.accumulate_steps) : 1;
}

std::span<const StepOutcome> Rank::train_steps(const StepRange& steps, bool stop) {
  freeze_state_ = run_.freezes.state(steps.epoch);
  plan_batches(*train_sampler_, steps);
  fill_rows(steps.epoch);
  run_planned(data::Split::TRAIN, steps.epoch, nullptr);
  row_ += std::int64_t(planned_.size());
  outcomes_.clear();
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    const MicroBatch& batch = planned_[i];
    if (batch.micro == 0) outcomes_.push_back({.lr = lr_of(steps.epoch, batch.step)});
    StepOutcome& mine = outcomes_.back();
    const ResultRow& result = rows_[i];
    mine.totals.add(totals_of(result, batch.share.size));
    mine.skipped = result[kResultFoundInf] != 0;
    mine.grad_norm = result[kResultGradNorm];
    mine.loss_scale = result[kResultLossScale];
    if (batch.micro + 1 != run_.batches.accumulate_steps) continue;
    skipped_in_row_ = mine.skipped ? skipped_in_row_ + 1 : 0;
    mine.skipped_in_row = skipped_in_row_;
    mine = gather(mine, stop);
  }
  return outcomes_;
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

std::span<const Totals> Rank::eval_steps(const StepRange& steps, data::Loader* loader) {
  plan_batches(*val_sampler_, steps);
  // A step without samples of this rank runs on zeros, which are no predictions.
  const bool idle = planned_.back().share.size == 0;
  const std::vector<std::int32_t> before = idle ? confusion() : std::vector<std::int32_t>{};
  run_planned(data::Split::VAL, steps.epoch, loader);
  if (!before.empty()) write_confusion(before);
  eval_row_ += std::int64_t(planned_.size());
  totals_.clear();
  for (std::size_t i = 0; i < planned_.size(); ++i)
    totals_.push_back(totals_of(rows_[i], planned_[i].share.size));
  return totals_;
}

std::vector<std::int32_t> Rank::confusion() const {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(confusion_elements_));
  if (confusion_ >= 0)
    executor_->read(confusion_, counts.data(), std::int64_t(counts.size() * sizeof(std::int32_t)));
  return counts;
}

void Rank::write_confusion(const std::vector<std::int32_t>& counts) {
  executor_->write(confusion_, counts.data(), std::int64_t(counts.size() * sizeof(std::int32_t)));
}

void Rank::clear_confusion() {
  if (confusion_ >= 0)
    write_confusion(std::vector<std::int32_t>(static_cast<std::size_t>(confusion_elements_), 0));
}

data::LoaderStats Rank::loader_stats() { return loader_ ? loader_->stats() : data::LoaderStats{}; }

void Rank::abandon() {
  close_stream();
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
