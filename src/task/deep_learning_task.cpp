// SPDX-License-Identifier: Apache-2.0
#include "renaissance/task/deep_learning_task.h"

#include <atomic>
#include <utility>

#include <nlohmann/json.hpp>

#include "algo/schedule.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/env.h"
#include "core/format.h"
#include "core/log.h"
#include "core/printable.h"
#include "graph/plan_report.h"
#include "task/trainer.h"

namespace tr {

struct DeepLearningTask::Impl {
  std::optional<BluePrint> model;
  std::optional<Session> session;
  std::optional<DatasetPair> data;
  std::optional<Shape> image;
  TrainOptions options;
  Callbacks callbacks;
  std::vector<KeyValue> assignments;
  std::unique_ptr<Trainer> trainer;
  double compile_ms = 0;
  std::atomic<bool> cancel{false};  // of the run under way or the next one

  void planning(const char* call) const {
    TR_CHECK(!trainer, "{} is called after compile(), expected before it", call);
  }
  Trainer& compiled(const char* call) const {
    TR_CHECK(trainer, "{} is called before compile(), expected after it", call);
    return *trainer;
  }
  Config snapshot() const;
};

Config DeepLearningTask::Impl::snapshot() const {
  const Session& source = session ? *session : default_session();
  Config config{source.global, source.preprocessor, options};
  apply_assignments(config, assignments);
  apply_environment_override(config);
  return config;
}

DeepLearningTask::DeepLearningTask() : impl_(std::make_unique<Impl>()) {}
DeepLearningTask::~DeepLearningTask() = default;
DeepLearningTask::DeepLearningTask(DeepLearningTask&& other) {
  other.check_movable();
  impl_ = std::move(other.impl_);
}
DeepLearningTask& DeepLearningTask::operator=(DeepLearningTask&& other) {
  check_movable();
  other.check_movable();
  impl_ = std::move(other.impl_);
  return *this;
}

void DeepLearningTask::check_movable() const {
  TR_CHECK(!impl_ || !impl_->trainer || !impl_->trainer->is_running(),
           "a DeepLearningTask is moved, or replaced by another one, while it runs, expected after "
           "its run() ends");
}

DeepLearningTask::Impl& DeepLearningTask::impl() const {
  TR_CHECK(impl_,
           "a DeepLearningTask is used that was moved from, expected the one it was moved to");
  return *impl_;
}

DeepLearningTask& DeepLearningTask::model(const BluePrint& model) {
  impl().planning("model");
  impl().model = model;
  return *this;
}

DeepLearningTask& DeepLearningTask::loss(const Loss& loss) {
  impl().planning("loss");
  loss.validate();
  impl().options.loss = loss;
  return *this;
}

DeepLearningTask& DeepLearningTask::optimizer(const Optimizer& optimizer) {
  impl().planning("optimizer");
  optimizer.validate();
  impl().options.optimizer = optimizer;
  return *this;
}

DeepLearningTask& DeepLearningTask::objectives(const std::vector<Objective>& objectives) {
  impl().planning("objectives");
  for (const Objective& objective : objectives) validate(objective);
  impl().options.objectives = objectives;
  return *this;
}

DeepLearningTask& DeepLearningTask::scheduler(const Scheduler& scheduler) {
  impl().planning("scheduler");
  scheduler.validate();
  impl().options.scheduler = scheduler;
  return *this;
}

DeepLearningTask& DeepLearningTask::initializer(const Initializer& initializer) {
  impl().planning("initializer");
  impl().options.initializer = initializer;
  return *this;
}

DeepLearningTask& DeepLearningTask::total_epochs(int n) {
  impl().planning("total_epochs");
  TR_CHECK(n >= 1, "total_epochs is {}, expected at least 1", n);
  impl().options.total_epochs = n;
  return *this;
}

DeepLearningTask& DeepLearningTask::validate_every(int interval, int offset) {
  impl().planning("validate_every");
  TR_CHECK(interval >= 1, "validate_every: interval is {}, expected at least 1", interval);
  TR_CHECK(offset >= 0, "validate_every: offset is {}, expected at least 0", offset);
  impl().options.validate_interval = interval;
  impl().options.validate_offset = offset;
  return *this;
}

DeepLearningTask& DeepLearningTask::early_stop_by_top1(double threshold) {
  impl().planning("early_stop_by_top1");
  TR_CHECK(threshold > 0 && threshold <= 1,
           "early_stop_by_top1 is {}, expected a fraction above 0, up to 1", threshold);
  impl().options.early_stop_top1 = threshold;
  return *this;
}

DeepLearningTask& DeepLearningTask::early_stop(const EarlyStop& stop) {
  impl().planning("early_stop");
  validate(stop);
  impl().options.early_stop = stop;
  return *this;
}

DeepLearningTask& DeepLearningTask::metrics(Metric columns) {
  impl().planning("metrics");
  impl().options.metrics = columns;
  return *this;
}

DeepLearningTask& DeepLearningTask::top_k(int k) {
  impl().planning("top_k");
  TR_CHECK(k >= 1, "top_k is {}, expected at least 1", k);
  impl().options.top_k = k;
  return *this;
}

DeepLearningTask& DeepLearningTask::confusion_matrix(bool on) {
  impl().planning("confusion_matrix");
  impl().options.confusion_matrix = on;
  return *this;
}

DeepLearningTask& DeepLearningTask::grad_clip(float limit, ClipKind kind) {
  impl().planning("grad_clip");
  TR_CHECK(limit > 0, "grad_clip is {}, expected more than 0", limit);
  impl().options.grad_clip_norm = kind == ClipKind::NORM ? limit : 0;
  impl().options.grad_clip_value = kind == ClipKind::VALUE ? limit : 0;
  return *this;
}

DeepLearningTask& DeepLearningTask::use_ema(float decay) {
  impl().planning("use_ema");
  TR_CHECK(decay > 0 && decay < 1, "use_ema: decay is {}, expected between 0 and 1", decay);
  impl().options.ema_decay = decay;
  return *this;
}

DeepLearningTask& DeepLearningTask::save_best(const std::string& path) {
  impl().planning("save_best");
  impl().options.best_weights_path = path;
  return *this;
}

DeepLearningTask& DeepLearningTask::save_every(const std::string& folder, int epochs,
                                               int keep_last) {
  impl().planning("save_every");
  TR_CHECK(epochs >= 1, "save_every: epochs is {}, expected at least 1", epochs);
  TR_CHECK(keep_last >= 1, "save_every: keep_last is {}, expected at least 1", keep_last);
  impl().options.checkpoint_dir = folder;
  impl().options.checkpoint_every = epochs;
  impl().options.checkpoint_keep = keep_last;
  return *this;
}

DeepLearningTask& DeepLearningTask::resume(const std::string& folder) {
  impl().planning("resume");
  if (!folder.empty()) impl().options.checkpoint_dir = folder;
  impl().options.resume = true;
  return *this;
}

DeepLearningTask& DeepLearningTask::load_weights(const std::string& path, bool strict) {
  impl().planning("load_weights");
  impl().options.load_weights = path;
  impl().options.load_strict = strict;
  return *this;
}

DeepLearningTask& DeepLearningTask::freeze(const std::string& prefix, int first_epoch,
                                           int last_epoch) {
  impl().planning("freeze");
  const Freeze rule{prefix, first_epoch, last_epoch};
  validate(rule);
  impl().options.freeze.push_back(rule);
  return *this;
}

DeepLearningTask& DeepLearningTask::param_groups(const std::vector<ParamGroup>& groups) {
  impl().planning("param_groups");
  for (const ParamGroup& group : groups) group.validate();
  impl().options.groups = groups;
  return *this;
}

DeepLearningTask& DeepLearningTask::memory_budget(std::int64_t bytes) {
  impl().planning("memory_budget");
  TR_CHECK(bytes >= 1, "memory_budget is {}, expected at least 1 byte", bytes);
  impl().options.memory_budget = bytes;
  return *this;
}

DeepLearningTask& DeepLearningTask::precision(const std::string& layer, LayerDType dtype) {
  impl().planning("precision");
  impl().options.precision.push_back({layer, dtype});
  return *this;
}

DeepLearningTask& DeepLearningTask::log_file(const std::string& path, int every_steps) {
  impl().planning("log_file");
  TR_CHECK(every_steps >= 0, "log_file: every_steps is {}, expected at least 0", every_steps);
  impl().options.log_file = path;
  impl().options.log_every = every_steps;
  return *this;
}

DeepLearningTask& DeepLearningTask::callbacks(Callbacks callbacks) {
  TR_CHECK(!impl().trainer || !impl().trainer->is_running(),
           "callbacks is called while run() calls them, expected before or after it");
  impl().callbacks = std::move(callbacks);
  return *this;
}

DeepLearningTask& DeepLearningTask::session(const Session& session) {
  impl().planning("session");
  impl().session = session;
  return *this;
}

DeepLearningTask& DeepLearningTask::dataset(const DatasetPair& data) {
  impl().planning("dataset");
  impl().data = data;
  return *this;
}

DeepLearningTask& DeepLearningTask::image_shape(const Shape& shape) {
  impl().planning("image_shape");
  TR_CHECK(shape.rank() == 3 && shape.num_elements() > 0, "image_shape is {}, expected [H, W, C]",
           shape);
  impl().image = shape;
  return *this;
}

DeepLearningTask& DeepLearningTask::set(const std::string& key, const std::string& value) {
  impl().planning("set");
  Config probe{GlobalSetting{}, PreprocessorSetting{}, impl().options};
  set_config(probe, key, value);  // a fault is told where it was made
  impl().assignments.push_back({key, value});
  return *this;
}

namespace {

void log_plans(const CompiledRun& run, CompileInfo info) {
  if (has(info, CompileInfo::ARCH_PLAN)) log_info("{}", run.compiled.arch.text());
  if (has(info, CompileInfo::MEMORY_PLAN)) {
    log_info("{}",
             report_plan(run.compiled.lowered, run.compiled.arch, run.compiled.memory).text());
  }
  for (std::size_t v = 0; v < run.compiled.variants.size(); ++v) {
    const bool train = run.compiled.variants[v].mode == Mode::TRAIN;
    if (!has(info, train ? CompileInfo::TRAIN_GRAPH : CompileInfo::INFER_GRAPH)) continue;
    log_info("variant {}\n{}", run.compiled.variants[v].name,
             run.compiled.lowered[std::size_t(run.compiled.atlas.whole(int(v)))].text());
  }
}

}  // namespace

DeepLearningTask& DeepLearningTask::compile(CompileInfo info) {
  impl().planning("compile");
  TR_CHECK(impl().model, "compile: the task has no model; call model(...) first");
  const Stopwatch watch;
  for (const std::string& message : unknown_env_messages()) log_warning("{}", message);
  RunRequest request{.config = impl().snapshot(), .model = *impl().model};
  if (impl().data) request.data = *impl().data, request.has_data = true;
  request.train = !impl().data || impl().data->train;
  request.image = impl().image;
  const TrainOptions& train = request.config.train;
  std::optional<CheckpointFolder::Found> found;
  if (train.resume) {
    validate(request.config);
    found = CheckpointFolder::newest(train.checkpoint_dir);
    if (!found)
      log_info("resume: {} has no checkpoint, the run starts afresh", train.checkpoint_dir);
    if (found) request.tuning = state_from_json(found->checkpoint.state, found->path).tuning;
  }
  impl().trainer = std::make_unique<Trainer>(compile_run(request), std::move(found));
  impl().compile_ms = watch.ms() - impl().trainer->compiled().open_ms;
  log_plans(impl().trainer->compiled(), info);
  log_info("configuration {}", config_json());
  return *this;
}

TrainingResult DeepLearningTask::run() {
  return impl().compiled("run").run(*this, impl().callbacks, impl().cancel);
}
EvalResult DeepLearningTask::evaluate() { return impl().compiled("evaluate").evaluate(); }
Tensor DeepLearningTask::predict(const Tensor& batch) {
  return impl().compiled("predict").predict(batch);
}
Tensor DeepLearningTask::predict_images(const Tensor& images) {
  return impl().compiled("predict_images").predict_images(images);
}
Tensor DeepLearningTask::predict_pictures(const std::vector<std::string>& paths) {
  return impl().compiled("predict_pictures").predict_pictures(paths);
}
Tensor DeepLearningTask::fetch(const std::string& name) {
  return impl().compiled("fetch").fetch(name);
}

std::vector<double> DeepLearningTask::learning_rates(std::int64_t steps_per_epoch) const {
  TR_CHECK(steps_per_epoch >= 1, "learning_rates: steps_per_epoch is {}, expected at least 1",
           steps_per_epoch);
  const TrainOptions train =
      impl().trainer ? impl().trainer->compiled().config.train : impl().snapshot().train;
  train.scheduler.validate();
  constexpr std::int64_t kMostRates = std::int64_t{1} << 26;
  TR_CHECK(steps_per_epoch <= kMostRates / train.total_epochs,
           "learning_rates: {} epochs of {} steps have more than 2^26 rates", train.total_epochs,
           steps_per_epoch);
  check_rates(train.scheduler, steps_per_epoch, train.total_epochs);
  std::vector<double> rates;
  for (std::int64_t step = 0; step < train.total_epochs * steps_per_epoch; ++step)
    rates.push_back(lr_at(train.scheduler, step, steps_per_epoch, train.total_epochs));
  return rates;
}

void DeepLearningTask::scale_lr(double factor) { impl().compiled("scale_lr").scale_lr(factor); }

void DeepLearningTask::save_weights(const std::string& path, WeightKind kind) const {
  ModelState& state = impl().compiled("save_weights").state();
  TR_CHECK(kind == WeightKind::CURRENT || state.has_ema(),
           "save_weights: the task has no averaged weights");
  save_safetensors(path, {state.weights(kind), {}});
}

void DeepLearningTask::cancel() { impl().cancel = true; }
Phase DeepLearningTask::phase() const { return impl().trainer ? Phase::COMPILED : Phase::PLANNING; }

std::string DeepLearningTask::config_json() const {
  const CompiledRun& run = impl().compiled("config_json").compiled();
  nlohmann::json config = to_json(run.config);
  config["device"] = std::string(name_of(run.device.kind));
  config["dataset.name"] = printable(run.data_name);
  config["global_batch_size"] = run.batches.global;
  config["local_batch_size"] = run.batches.local;
  return config.dump();
}

double DeepLearningTask::compile_ms() const { return impl().compile_ms; }
std::string DeepLearningTask::data_name() const {
  return impl().compiled("data_name").compiled().data_name;
}
std::string DeepLearningTask::find_nan() { return impl().compiled("find_nan").find_nan(); }

std::vector<OpTime> DeepLearningTask::profile() { return impl().compiled("profile").profile(); }

std::vector<VariantTimes> DeepLearningTask::step_times() const {
  return impl().compiled("step_times").step_times();
}
std::string DeepLearningTask::graph(GraphFormat format) const {
  return impl().compiled("graph").graph(format);
}
DeviceMemory DeepLearningTask::memory() const { return impl().compiled("memory").memory(); }

}  // namespace tr
