// SPDX-License-Identifier: Apache-2.0
#include "task/trainer.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/folder_lock.h"
#include "core/format.h"
#include "core/human.h"
#include "core/log.h"
#include "data/feed_verdict.h"
#include "dist/local.h"
#include "graph/step_tables.h"
#include "renaissance/task/progress.h"
#include "task/signals.h"

namespace tr {

namespace {

constexpr std::string_view kBestPrefix = "best/";  // tensors of EarlyStop::restore_best
constexpr std::int64_t kTracedSteps = 20;          // in a trace, unless their number is set

std::vector<std::unique_ptr<Communicator>> make_communicators(int world_size) {
  if (world_size > 1) return dist::make_local(world_size);
  std::vector<std::unique_ptr<Communicator>> one;
  one.push_back(dist::make_single());
  return one;
}

}  // namespace

Trainer::Trainer(CompiledRun run, std::optional<CheckpointFolder::Found> resumed)
    : run_(std::move(run)),
      board_(run_.batches.world_size),
      digest_(model_digest(run_.compiled.arch)) {
  const TrainOptions& options = run_.config.train;
  const bool trains = run_.data.train != nullptr;  // else these files belong to another run
  std::optional<FolderLock> lock;
  // Files first: an unwritable place is to be known before memory is taken.
  if (trains && !options.checkpoint_dir.empty()) {
    folder_.emplace(options.checkpoint_dir, options.checkpoint_keep);
    lock.emplace(options.checkpoint_dir);
    folder_->remove_leftovers();
  }
  if (trains && !options.best_weights_path.empty()) AtomicFile probe(options.best_weights_path);
  if (trains && !options.trace_file.empty()) AtomicFile probe(options.trace_file);
  if (trains && !options.log_file.empty()) log_ = MetricsLog(options.log_file, options.log_every);

  auto communicators = make_communicators(run_.batches.world_size);
  for (int r = 0; r < run_.batches.world_size; ++r) {
    ranks_.push_back(std::make_unique<Rank>(run_, r, std::move(communicators[std::size_t(r)]),
                                            board_, r == 0 ? &spans_ : nullptr));
    const float scale =
        run_.config.global.values().low_dtype == DType::FP16 ? options.loss_scale : 1.0f;
    ranks_.back()->state().initialise(options.initializer, run_.config.global.values().seed, scale);
  }
  if (resumed) {
    restore(*resumed);
  } else if (!options.load_weights.empty()) {
    const SafetensorsFile file = load_safetensors(options.load_weights);
    for (auto& rank : ranks_)
      rank->state().load_weights(file, options.load_strict, options.load_weights);
  }
  log_.config(to_json(run_.config).dump());
  if (!progress_.finished) progress_.epoch.epoch = int(progress_.history.size()) + 1;
  const DeviceMemory taken = memory();
  log_info("device memory: arena {}, data {}, total {}", format_bytes(taken.arena_bytes),
           format_bytes(taken.data_bytes), format_bytes(taken.total_bytes));
  timed_left_ = options.timed_steps;
  if (timed_left_ == 0 && !options.trace_file.empty()) timed_left_ = kTracedSteps;
}

void Trainer::restore(const CheckpointFolder::Found& found) {
  SavedState saved = state_from_json(found.checkpoint.state, found.path);
  TR_CHECK(saved.model_digest == digest_, "{}: the checkpoint is of another model", found.path);
  const std::vector<std::string> differences = numeric_differences(saved.config, run_.config);
  TR_CHECK(differences.empty(),
           "{}: the run was made with other settings, so it cannot be continued: {}", found.path,
           fmt::join(differences, "; "));
  TR_CHECK(saved.train_samples < 0 || saved.train_samples == run_.sizes.train,
           "{}: the run was made with {} training samples, this set has {}, so it cannot be "
           "continued: a place in the one is none in the other",
           found.path, saved.train_samples, run_.sizes.train);
  if (saved.val_samples >= 0 && saved.val_samples != run_.sizes.val) {
    log_warning("{}: the run was validated with {} samples so far, this set has {}", found.path,
                saved.val_samples, run_.sizes.val);
  }
  progress_ = std::move(saved.state);
  SafetensorsFile file;
  for (const NamedTensor& tensor : found.checkpoint.tensors) {
    if (tensor.name.starts_with(kBestPrefix)) {
      progress_.best_model.push_back({tensor.name.substr(kBestPrefix.size()), tensor.tensor});
    } else {
      file.tensors.push_back(tensor);
    }
  }
  for (auto& rank : ranks_) rank->state().restore(file);
  find_phase(saved.in_validation);
  if (progress_.step > 0 && progress_.step >= run_.train_steps) {
    throw_as<DataError>("{}: it was made at step {} of an epoch, this run's have {}", found.path,
                        progress_.step, run_.train_steps);
  }
  last_checkpoint_ = found.path;
  const bool ends_best = progress_.step == 0 && !saved.in_validation &&
                         !progress_.history.empty() &&
                         progress_.history.back().epoch == progress_.best_epoch;
  if (folder_ && ends_best) folder_->mark_best(found.path);  // it may have been killed before that
  const bool more_epochs = std::size_t(progress_.phase) < run_.phases.size();
  const double goal = run_.config.train.early_stop_top1;
  const bool reached = goal > 0 && std::any_of(progress_.history.begin(), progress_.history.end(),
                                               [&](const auto& r) { return r.top1 >= goal; });
  if (progress_.finished && more_epochs && !reached && !progress_.stopped_early)
    progress_.finished = false;
  if (progress_.finished) restore_best_model();
  log_info("resumed from {}: {} steps done, {}", found.path, progress_.total_steps,
           progress_.finished ? "the run had finished"
                              : fmt::format("going on in epoch {}", progress_.history.size() + 1));
}

/// The place in this run's list of phases, which may be longer than that of the run that was saved.
void Trainer::find_phase(bool in_validation) {
  const auto epoch = std::int64_t(progress_.history.size());
  const auto at =
      std::find_if(run_.phases.begin(), run_.phases.end(), [&](const data::StreamPhase& phase) {
        return phase.epoch == epoch && phase.split == data::Split::TRAIN;
      });
  progress_.phase = at - run_.phases.begin();
  if (!in_validation) return;
  ++progress_.phase;
  const bool validated = std::size_t(progress_.phase) < run_.phases.size() &&
                         run_.phases[std::size_t(progress_.phase)].split == data::Split::VAL;
  if (validated) return;
  // The last epoch of the saved run is not the last one any more: it goes without validation.
  progress_.history.push_back(progress_.epoch);
  progress_.epoch = {};
  progress_.epoch_totals = {};
  progress_.train_seconds = 0;
}

std::int64_t Trainer::arena_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& rank : ranks_) bytes += rank->executor().arena_bytes();
  return bytes;
}

bool Trainer::stop_requested() const {
  return cancel_->load(std::memory_order_relaxed) || SignalGuard::received() != 0;
}

TrainingResult Trainer::run(DeepLearningTask& task, const Callbacks& callbacks,
                            std::atomic<bool>& cancel) {
  TR_CHECK(run_.data.train, "run: the task was compiled without a training set");
  TR_CHECK(!is_running(), "run: it is called while this task runs, expected after its run() ends");
  TR_CHECK(!broken_, "run: a former run of this task ended with an error; make a new task");
  const Stopwatch total;
  epoch_feed_ = run_feed_ = {};
  if (progress_.finished) {
    cancel = false;
    return make_result(total.seconds());
  }
  std::optional<FolderLock> lock;
  if (folder_) {
    lock.emplace(folder_->path());
    // Now, not at compile(): another run may have been there in between.
    if (last_checkpoint_.empty()) folder_->set_former_aside(run_.config.train.best_weights_path);
  }
  const SignalGuard guard(folder_.has_value());
  cancel_ = &cancel;
  interrupted_ = stop_requested();  // before the first step
  broken_ = true;                   // until the loop ends well
  task_ = &task;
  callbacks_ = &callbacks;
  for (auto& rank : ranks_) rank->open_stream(progress_.phase, progress_.step);
  meter_ = std::make_unique<ProgressMeter>(ProgressMeter::Frame{
      run_.config.train.total_epochs, run_.train_steps, arena_bytes(), run_.config.train.metrics});
  apply_lr_factor();
  begin_timing();
  try {
    while (std::size_t(progress_.phase) < run_.phases.size() && !progress_.finished &&
           !interrupted_) {
      if (run_.phases[std::size_t(progress_.phase)].split == data::Split::TRAIN) {
        train_phase();
      } else {
        validate_phase();
      }
    }
    if (interrupted_ && folder_) write_checkpoint(false);
    end_timing();
    write_trace();
  } catch (...) {
    meter_.reset();
    for (auto& rank : ranks_) rank->close_stream();
    throw;
  }
  meter_.reset();
  for (auto& rank : ranks_) rank->close_stream();
  broken_ = false;
  cancel = false;
  const TrainingResult result = make_result(total.seconds());
  const std::string decoded = data::decode_shares(run_feed_.stats.decoded);
  if (!decoded.empty()) log_info("data: pictures decoded: {}", decoded);
  log_.result(result, decoded);
  return result;
}

void Trainer::train_phase() {
  const std::string name = fmt::format("epoch {}", progress_.epoch.epoch);
  const Spans::Scope scope(&spans_, name.c_str());
  meter_->begin_epoch(progress_.epoch.epoch, progress_.step);
  ranks_.front()->loader_stats();  // from here on
  if (run_.freezes.changes() || !run_.config.train.objectives.empty()) {
    const auto& frozen = run_.freezes.states[std::size_t(run_.freezes.state(epoch_index()))];
    for (auto& rank : ranks_) rank->state().freeze(frozen);
  }
  const Stopwatch watch;
  while (const auto suspect = run_steps()) judge_skipped_step(*suspect);
  progress_.train_seconds += watch.seconds();
  const data::LoaderStats fed = ranks_.front()->loader_stats();
  progress_.epoch.data_wait_ms += fed.wait_ms;
  for (Feed* feed : {&epoch_feed_, &run_feed_}) {
    feed->stats.add(fed);
    feed->seconds += watch.seconds();
  }
  if (progress_.step < run_.train_steps) {
    interrupted_ = true;
    return;
  }
  // At a higher loss scale the skips may be those of its fall to where the gradients fit.
  const bool at_lowest_scale = state().first_of<float>("loss_scale") <= 1;
  if (progress_.epoch_totals.samples == 0 && at_lowest_scale) {
    fail_not_finite(fmt::format("all {} steps of epoch {} were skipped, at loss scale 1 now",
                                run_.train_steps, progress_.epoch.epoch));
  }
  end_training_of_epoch();
}

std::optional<StepOutcome> Trainer::run_steps() {
  if (ranks_.size() == 1) {
    run_steps_alone(*ranks_.front());
    return std::nullopt;
  }
  const std::int64_t first = progress_.step, epoch = epoch_index();
  std::optional<StepOutcome> suspect;
  for_each_rank(ranks_, [&](Rank& rank) {
    const bool lead = rank.index() == 0;
    for (std::int64_t step = first; step < run_.train_steps; ++step) {
      const StepOutcome outcome = rank.train_steps({epoch, step, 1}, lead && stop_requested())[0];
      if (lead) after_step(step, outcome);
      if (is_suspect(outcome)) {
        if (lead) suspect = outcome;
        break;
      }
      if (outcome.stop) break;
    }
  });
  return suspect;
}

/// Several steps at once where the device runs ahead of the host: as many as it does in
/// kLaunchSeconds, so that signals and the progress line wait no longer than that.
void Trainer::run_steps_alone(Rank& rank) {
  constexpr double kLaunchSeconds = 0.2;
  while (progress_.step < run_.train_steps && !stop_requested()) {
    const std::int64_t count = std::min(steps_until_pause(rank), steps_a_launch_);
    const Stopwatch watch;
    const std::span<const StepOutcome> outcomes =
        rank.train_steps({epoch_index(), progress_.step, count}, false);
    const double a_step = watch.seconds() / double(count);
    steps_a_launch_ =
        std::max<std::int64_t>(1, std::int64_t(kLaunchSeconds / std::max(a_step, 1e-9)));
    for (const StepOutcome& outcome : outcomes) {
      after_step(progress_.step, outcome);
      if (is_suspect(outcome)) judge_skipped_step(outcome);
    }
  }
}

/// Steps until something has to happen on the host: the epoch's end, a checkpoint, a callback.
std::int64_t Trainer::steps_until_pause(const Rank& rank) const {
  if (callbacks_->on_step) return 1;
  std::int64_t steps = std::min(rank.max_steps(), run_.train_steps - progress_.step);
  const int every = run_.config.train.checkpoint_every_steps;
  if (every > 0) steps = std::min(steps, every - progress_.total_steps % every);
  if (timed_left_ > 0) steps = std::min(steps, timed_left_);
  return steps;
}

std::int64_t Trainer::epoch_index() const {
  return run_.phases[std::size_t(progress_.phase)].epoch;
}

void Trainer::end_training_of_epoch() {
  ++progress_.phase;
  progress_.step = 0;
  EpochRecord& record = progress_.epoch;
  const bool trained = progress_.epoch_totals.samples > 0;
  record.train_loss = trained ? progress_.epoch_totals.mean_loss() : std::nan("");
  if (run_.classification && trained) {
    record.train_top1 =
        double(progress_.epoch_totals.top1) / double(progress_.epoch_totals.samples);
  }
  const std::int64_t images =
      run_.sizes.drop_last ? run_.train_steps * run_.batches.global : run_.sizes.train;
  const data::LoaderStats& fed = epoch_feed_.stats;
  record.read_ms = fed[data::Stage::READ];
  record.decode_ms = fed[data::Stage::DECODE];
  record.transform_ms = fed[data::Stage::TRANSFORM];
  record.normalise_ms = fed[data::Stage::NORMALISE];
  record.mix_ms = fed[data::Stage::MIX];
  record.feed = data::feed_verdict(fed, epoch_feed_.seconds);
  epoch_feed_ = {};
  record.bad_samples = run_.bad_samples->count();
  record.images_per_s = double(images) / std::max(1e-9, progress_.train_seconds);
  progress_.all_train_seconds += progress_.train_seconds;
  const bool validated_next = std::size_t(progress_.phase) < run_.phases.size() &&
                              run_.phases[std::size_t(progress_.phase)].split == data::Split::VAL;
  if (!validated_next) end_epoch();
}

void Trainer::after_step(std::int64_t step, const StepOutcome& outcome) {
  progress_.step = step + 1;
  ++progress_.total_steps;
  progress_.epoch.lr = outcome.lr;
  progress_.train_images += outcome.totals.samples;
  if (outcome.skipped) {
    ++progress_.epoch.skipped_steps;
  } else {
    progress_.epoch_totals.add(outcome.totals);
  }
  count_timed_step();
  meter_->add_step(progress_.step, outcome, progress_.epoch_totals);
  log_.step(progress_.total_steps, progress_.epoch.epoch, outcome);
  if (callbacks_->on_step) {
    in_on_step_ = true;
    callbacks_->on_step(*task_, progress_.total_steps, outcome.totals.mean_loss(), outcome.lr);
    in_on_step_ = false;
  }
  const int every = run_.config.train.checkpoint_every_steps;
  if (every > 0 && progress_.total_steps % every == 0 && progress_.step < run_.train_steps)
    write_checkpoint(false);
}

/// Each rank averages those of its own batches; checkpoints and weights hold rank 0's.
void Trainer::share_buffers() {
  if (ranks_.size() == 1) return;
  const std::vector<Tensor> buffers = ranks_.front()->state().buffers(Role::BUFFER);
  for (auto& rank : ranks_) rank->state().set_buffers(Role::BUFFER, buffers);
}

EvalResult Trainer::evaluate_streams(bool own_loader) {
  share_buffers();
  std::vector<Totals> parts(ranks_.size());
  std::vector<std::int64_t> bad_steps(ranks_.size(), -1);  // the first one of each rank
  for (auto& rank : ranks_) rank->clear_confusion();
  for_each_rank(ranks_, [&](Rank& rank) {
    std::unique_ptr<data::Loader> own;
    if (own_loader && run_.data_on_device) rank.sync_rows();
    if (own_loader && !run_.data_on_device) {
      data::LoaderConfig config = run_.loader_config(rank.index());
      config.train.dataset = nullptr;
      own = std::make_unique<data::Loader>(std::move(config), [](std::int64_t i) {
        return i == 0 ? std::optional(data::StreamPhase{data::Split::VAL, 0}) : std::nullopt;
      });
      rank.sync_rows();
    }
    for (std::int64_t step = 0; step < run_.val_steps;) {
      if (!own_loader && stop_requested()) break;
      const std::int64_t count =
          std::min({rank.max_steps(), steps_a_launch_, run_.val_steps - step});
      for (const Totals& part : rank.eval_steps({0, step, count}, own.get())) {
        parts[std::size_t(rank.index())].add(part);
        std::int64_t& bad = bad_steps[std::size_t(rank.index())];
        if (!std::isfinite(part.loss_sum) && bad < 0) bad = step;
        ++step;
      }
    }
  });
  EvalResult result;
  double loss_sum = 0, top1 = 0, top5 = 0;
  for (const Totals& part : parts) {
    loss_sum += part.loss_sum;
    top1 += double(part.top1);
    top5 += double(part.top5);
    result.num_samples += part.samples;
  }
  const double samples = double(std::max<std::int64_t>(1, result.num_samples));
  result.loss = loss_sum / samples;
  if (run_.classification) {
    result.top1 = top1 / samples;
    result.top5 = top5 / samples;
  }
  result.confusion = confusion();
  std::erase(bad_steps, -1);
  if (!bad_steps.empty()) {
    const std::int64_t first = *std::min_element(bad_steps.begin(), bad_steps.end());
    judge_validation(result, {{data::Split::VAL, 0}, first});
  }
  return result;
}

ConfusionMatrix Trainer::confusion() const {
  ConfusionMatrix matrix;
  for (const auto& rank : ranks_) {
    const std::vector<std::int32_t> part = rank->confusion();
    matrix.counts.resize(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) matrix.counts[i] += part[i];
  }
  matrix.classes = std::int64_t(std::lround(std::sqrt(double(matrix.counts.size()))));
  return matrix;
}

void Trainer::validate_phase() {
  const Spans::Scope scope(&spans_, "validation");
  meter_->begin_validation();
  const EvalResult result = evaluate_streams(false);
  if (result.num_samples < run_.sizes.val) {  // stopped on the way: done anew after a resume
    interrupted_ = true;
    return;
  }
  progress_.epoch.validated = true;
  progress_.epoch.val_loss = result.loss;
  progress_.epoch.top1 = result.top1;
  progress_.epoch.top5 = result.top5;
  if (!result.confusion.empty()) progress_.epoch.macro_f1 = class_report(result.confusion).macro.f1;
  ++progress_.phase;
  end_epoch();
}

bool Trainer::is_new_best(const EpochRecord& record) {
  if (!record.validated) return false;
  const bool by_accuracy = run_.classification;
  const bool better =
      progress_.best_epoch < 0 ||
      (by_accuracy ? record.top1 > progress_.best_top1 : record.val_loss < progress_.best_loss);
  if (!better) return false;
  progress_.best_epoch = record.epoch;
  progress_.best_top1 = std::max(0.0, record.top1);
  progress_.best_top5 = std::max(0.0, record.top5);
  progress_.best_loss = record.val_loss;
  return true;
}

void Trainer::watch_metrics(const EpochRecord& record) {
  const TrainOptions& options = run_.config.train;
  const Scheduler& scheduler = options.scheduler;
  if (scheduler.kind == Scheduler::Kind::PLATEAU && record.epoch > scheduler.warmup_epochs) {
    const Plateau& plateau = scheduler.plateau;
    const double before = progress_.plateau.factor;
    if (const auto value = epoch_metric(record, plateau.metric))
      plateau_step(scheduler, metric_rises(plateau.metric, plateau.mode), *value,
                   progress_.plateau);
    if (progress_.plateau.factor != before) {
      log_info("epoch {}: {} has not got better, the learning rate falls to {:g}", record.epoch,
               plateau.metric, scheduler.base_lr * progress_.plateau.factor);
    }
    apply_lr_factor();
  }
  const EarlyStop& stop = options.early_stop;
  if (stop.metric.empty()) return;
  const auto value = epoch_metric(record, stop.metric);
  if (!value) return;
  const bool best =
      watch(progress_.early_stop, *value, metric_rises(stop.metric, stop.mode), stop.min_delta);
  if (best && stop.restore_best) progress_.best_model = state().model_snapshot();
  if (progress_.early_stop.waited < stop.patience) return;
  log_info("epoch {}: {} has not got better than {:g} for {} epochs, the run ends", record.epoch,
           stop.metric, progress_.early_stop.best, stop.patience);
  progress_.stopped_early = true;
}

void Trainer::restore_best_model() {
  if (progress_.best_model.empty()) return;
  for (auto& rank : ranks_) rank->state().restore_model(progress_.best_model);
}

void Trainer::apply_lr_factor() {
  for (auto& rank : ranks_) rank->set_lr_factor(progress_.lr_factor * progress_.plateau.factor);
}

void Trainer::scale_lr(double factor) {
  TR_CHECK(factor >= 0 && std::isfinite(factor),
           "scale_lr: the factor is {}, expected a finite number of at least 0", factor);
  TR_CHECK(!in_on_step_ || ranks_.size() == 1,
           "scale_lr: it is called in on_step of {} ranks, which are in their next step; expected "
           "in on_epoch",
           ranks_.size());
  const double product = progress_.lr_factor * factor;
  TR_CHECK(std::isfinite(float(product)),
           "scale_lr: the factor is {}, with former ones {}, expected what fp32 holds", factor,
           product);
  progress_.lr_factor = product;
  apply_lr_factor();
}

void Trainer::end_epoch() {
  const TrainOptions& options = run_.config.train;
  const EpochRecord record = progress_.epoch;
  progress_.history.push_back(record);
  const bool best = is_new_best(record);
  const bool reached = options.early_stop_top1 > 0 && record.top1 >= options.early_stop_top1;
  watch_metrics(record);
  progress_.finished =
      reached || progress_.stopped_early || std::size_t(progress_.phase) >= run_.phases.size();
  progress_.epoch = EpochRecord{.epoch = record.epoch + 1};
  progress_.epoch_totals = {};
  progress_.train_seconds = 0;
  meter_->end_epoch(record);
  log_.epoch(record);
  if (best && !options.best_weights_path.empty()) {
    const WeightKind kind = run_.ema() ? WeightKind::EMA : WeightKind::CURRENT;
    save_safetensors(options.best_weights_path, {state().weights(kind), {}});
  }
  const bool due = record.epoch % options.checkpoint_every == 0 || progress_.finished || best;
  if (folder_ && due) write_checkpoint(best);
  // The checkpoint has the last epoch's, from which a longer run goes on, and the best ones beside.
  if (progress_.finished) restore_best_model();
  if (callbacks_->on_epoch) callbacks_->on_epoch(*task_, record);
  if (!progress_.finished && stop_requested()) interrupted_ = true;
}

void Trainer::write_checkpoint(bool best) {
  const Spans::Scope scope(&spans_, "checkpoint");
  Checkpoint checkpoint{progress_.to_json(run_, digest_), state().snapshot()};
  for (const NamedTensor& tensor : progress_.best_model)
    checkpoint.tensors.push_back({std::string(kBestPrefix) + tensor.name, tensor.tensor});
  last_checkpoint_ = folder_->write(progress_.total_steps, checkpoint);
  if (best) folder_->mark_best(last_checkpoint_);
}

TrainingResult Trainer::make_result(double seconds) {
  TrainingResult result;
  result.best_top1 = progress_.best_top1;
  result.best_top5 = progress_.best_top5;
  result.best_epoch = progress_.best_epoch;
  result.history = progress_.history;
  const double trained = progress_.all_train_seconds + progress_.train_seconds;
  result.images_per_s = trained > 0 ? double(progress_.train_images) / trained : 0;
  result.feed = data::feed_verdict(run_feed_.stats, run_feed_.seconds);
  result.total_s = seconds;
  result.peak_bytes = arena_bytes();
  result.weights_sha256 = state().weights_sha256();
  result.tuning_sha256 = run_.tuning.hash();
  result.cancelled = interrupted_;
  result.log_path = log_.path();
  result.checkpoint_path = last_checkpoint_;
  return result;
}

EvalResult Trainer::evaluate() {
  TR_CHECK(run_.data.val, "evaluate: the data have no validation set");
  TR_CHECK(!in_on_step_ || ranks_.size() == 1,
           "evaluate: it is called in on_step of {} ranks, which are in their next step; expected "
           "in on_epoch or after run()",
           ranks_.size());
  return evaluate_streams(true);
}

}  // namespace tr
