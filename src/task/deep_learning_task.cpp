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
DeepLearningTask::DeepLearningTask(DeepLearningTask&&) noexcept = default;
DeepLearningTask& DeepLearningTask::operator=(DeepLearningTask&&) noexcept = default;

DeepLearningTask& DeepLearningTask::model(const BluePrint& model) {
  impl_->planning("model");
  impl_->model = model;
  return *this;
}

DeepLearningTask& DeepLearningTask::loss(const Loss& loss) {
  impl_->planning("loss");
  loss.validate();
  impl_->options.loss = loss;
  return *this;
}

DeepLearningTask& DeepLearningTask::optimizer(const Optimizer& optimizer) {
  impl_->planning("optimizer");
  optimizer.validate();
  impl_->options.optimizer = optimizer;
  return *this;
}

DeepLearningTask& DeepLearningTask::objectives(const std::vector<Objective>& objectives) {
  impl_->planning("objectives");
  for (const Objective& objective : objectives) validate(objective);
  impl_->options.objectives = objectives;
  return *this;
}

DeepLearningTask& DeepLearningTask::scheduler(const Scheduler& scheduler) {
  impl_->planning("scheduler");
  scheduler.validate();
  impl_->options.scheduler = scheduler;
  return *this;
}

DeepLearningTask& DeepLearningTask::initializer(const Initializer& initializer) {
  impl_->planning("initializer");
  impl_->options.initializer = initializer;
  return *this;
}

DeepLearningTask& DeepLearningTask::total_epochs(int n) {
  impl_->planning("total_epochs");
  TR_CHECK(n >= 1, "total_epochs is {}, expected at least 1", n);
  impl_->options.total_epochs = n;
  return *this;
}

DeepLearningTask& DeepLearningTask::validate_every(int interval, int offset) {
  impl_->planning("validate_every");
  TR_CHECK(interval >= 1, "validate_every: interval is {}, expected at least 1", interval);
  TR_CHECK(offset >= 0, "validate_every: offset is {}, expected at least 0", offset);
  impl_->options.validate_interval = interval;
  impl_->options.validate_offset = offset;
  return *this;
}

DeepLearningTask& DeepLearningTask::early_stop_by_top1(double threshold) {
  impl_->planning("early_stop_by_top1");
  TR_CHECK(threshold > 0 && threshold <= 1,
           "early_stop_by_top1 is {}, expected a fraction above 0, up to 1", threshold);
  impl_->options.early_stop_top1 = threshold;
  return *this;
}

DeepLearningTask& DeepLearningTask::early_stop(const EarlyStop& stop) {
  impl_->planning("early_stop");
  validate(stop);
  impl_->options.early_stop = stop;
  return *this;
}

DeepLearningTask& DeepLearningTask::metrics(Metric columns) {
  impl_->planning("metrics");
  impl_->options.metrics = columns;
  return *this;
}

DeepLearningTask& DeepLearningTask::top_k(int k) {
  impl_->planning("top_k");
  TR_CHECK(k >= 1, "top_k is {}, expected at least 1", k);
  impl_->options.top_k = k;
  return *this;
}

DeepLearningTask& DeepLearningTask::confusion_matrix(bool on) {
  impl_->planning("confusion_matrix");
  impl_->options.confusion_matrix = on;
  return *this;
}

DeepLearningTask& DeepLearningTask::grad_clip(float limit, ClipKind kind) {
  impl_->planning("grad_clip");
  TR_CHECK(limit > 0, "grad_clip is {}, expected more than 0", limit);
  impl_->options.grad_clip_norm = kind == ClipKind::NORM ? limit : 0;
  impl_->options.grad_clip_value = kind == ClipKind::VALUE ? limit : 0;
  return *this;
}

DeepLearningTask& DeepLearningTask::use_ema(float decay) {
  impl_->planning("use_ema");
  TR_CHECK(decay > 0 && decay < 1, "use_ema: decay is {}, expected between 0 and 1", decay);
  impl_->options.ema_decay = decay;
  return *this;
}

DeepLearningTask& DeepLearningTask::save_best(const std::string& path) {
  impl_->planning("save_best");
  impl_->options.best_weights_path = path;
  return *this;
}

DeepLearningTask& DeepLearningTask::save_every(const std::string& folder, int epochs,
                                               int keep_last) {
  impl_->planning("save_every");
  TR_CHECK(epochs >= 1, "save_every: epochs is {}, expected at least 1", epochs);
  TR_CHECK(keep_last >= 1, "save_every: keep_last is {}, expected at least 1", keep_last);
  impl_->options.checkpoint_dir = folder;
  impl_->options.checkpoint_every = epochs;
  impl_->options.checkpoint_keep = keep_last;
  return *this;
}

DeepLearningTask& DeepLearningTask::resume(const std::string& folder) {
  impl_->planning("resume");
  if (!folder.empty()) impl_->options.checkpoint_dir = folder;
  impl_->options.resume = true;
  return *this;
}

DeepLearningTask& DeepLearningTask::load_weights(const std::string& path, bool strict) {
  impl_->planning("load_weights");
  impl_->options.load_weights = path;
  impl_->options.load_strict = strict;
  return *this;
}

DeepLearningTask& DeepLearningTask::freeze(const std::string& prefix, int first_epoch,
                                           int last_epoch) {
  impl_->planning("freeze");
  const Freeze rule{prefix, first_epoch, last_epoch};
  validate(rule);
  impl_->options.freeze.push_back(rule);
  return *this;
}

DeepLearningTask& DeepLearningTask::param_groups(const std::vector<ParamGroup>& groups) {
  impl_->planning("param_groups");
  for (const ParamGroup& group : groups) group.validate();
  impl_->options.groups = groups;
  return *this;
}

DeepLearningTask& DeepLearningTask::memory_budget(std::int64_t bytes) {
  impl_->planning("memory_budget");
  TR_CHECK(bytes >= 1, "memory_budget is {}, expected at least 1 byte", bytes);
  impl_->options.memory_budget = bytes;
  return *this;
}

DeepLearningTask& DeepLearningTask::precision(const std::string& layer, LayerDType dtype) {
  impl_->planning("precision");
  impl_->options.precision.push_back({layer, dtype});
  return *this;
}

DeepLearningTask& DeepLearningTask::log_file(const std::string& path, int every_steps) {
  impl_->planning("log_file");
  TR_CHECK(every_steps >= 0, "log_file: every_steps is {}, expected at least 0", every_steps);
  impl_->options.log_file = path;
  impl_->options.log_every = every_steps;
  return *this;
}

DeepLearningTask& DeepLearningTask::callbacks(Callbacks callbacks) {
  TR_CHECK(!impl_->trainer || !impl_->trainer->is_running(),
           "callbacks is called while run() calls them, expected before or after it");
  impl_->callbacks = std::move(callbacks);
  return *this;
}

DeepLearningTask& DeepLearningTask::session(const Session& session) {
  impl_->planning("session");
  impl_->session = session;
  return *this;
}

DeepLearningTask& DeepLearningTask::dataset(const DatasetPair& data) {
  impl_->planning("dataset");
  impl_->data = data;
  return *this;
}

DeepLearningTask& DeepLearningTask::image_shape(const Shape& shape) {
  impl_->planning("image_shape");
  TR_CHECK(shape.rank() == 3 && shape.num_elements() > 0, "image_shape is {}, expected [H, W, C]",
           shape);
  impl_->image = shape;
  return *this;
}

DeepLearningTask& DeepLearningTask::set(const std::string& key, const std::string& value) {
  impl_->planning("set");
  Config probe{GlobalSetting{}, PreprocessorSetting{}, impl_->options};
  set_config(probe, key, value);  // a fault is told where it was made
  impl_->assignments.push_back({key, value});
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
  impl_->planning("compile");
  TR_CHECK(impl_->model, "compile: the task has no model; call model(...) first");
  const Stopwatch watch;
  for (const std::string& message : unknown_env_messages()) log_warning("{}", message);
  RunRequest request{.config = impl_->snapshot(), .model = *impl_->model};
  if (impl_->data) request.data = *impl_->data, request.has_data = true;
  request.train = !impl_->data || impl_->data->train;
  request.image = impl_->image;
  const TrainOptions& train = request.config.train;
  std::optional<CheckpointFolder::Found> found;
  if (train.resume) {
    validate(request.config);
    found = CheckpointFolder::newest(train.checkpoint_dir);
    if (!found)
      log_info("resume: {} has no checkpoint, the run starts afresh", train.checkpoint_dir);
    if (found) request.tuning = state_from_json(found->checkpoint.state, found->path).tuning;
  }
  impl_->trainer = std::make_unique<Trainer>(compile_run(request), std::move(found));
  impl_->compile_ms = watch.ms() - impl_->trainer->compiled().open_ms;
  log_plans(impl_->trainer->compiled(), info);
  log_info("configuration {}", config_json());
  return *this;
}

TrainingResult DeepLearningTask::run() {
  return impl_->compiled("run").run(*this, impl_->callbacks, impl_->cancel);
}
EvalResult DeepLearningTask::evaluate() { return impl_->compiled("evaluate").evaluate(); }
Tensor DeepLearningTask::predict(const Tensor& batch) {
  return impl_->compiled("predict").predict(batch);
}
Tensor DeepLearningTask::predict_images(const Tensor& images) {
  return impl_->compiled("predict_images").predict_images(images);
}
Tensor DeepLearningTask::predict_pictures(const std::vector<std::string>& paths) {
  return impl_->compiled("predict_pictures").predict_pictures(paths);
}
Tensor DeepLearningTask::fetch(const std::string& name) {
  return impl_->compiled("fetch").fetch(name);
}

std::vector<double> DeepLearningTask::learning_rates(std::int64_t steps_per_epoch) const {
  TR_CHECK(steps_per_epoch >= 1, "learning_rates: steps_per_epoch is {}, expected at least 1",
           steps_per_epoch);
  const TrainOptions train =
      impl_->trainer ? impl_->trainer->compiled().config.train : impl_->snapshot().train;
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

void DeepLearningTask::scale_lr(double factor) { impl_->compiled("scale_lr").scale_lr(factor); }

void DeepLearningTask::save_weights(const std::string& path, WeightKind kind) const {
  ModelState& state = impl_->compiled("save_weights").state();
  TR_CHECK(kind == WeightKind::CURRENT || state.has_ema(),
           "save_weights: the task has no averaged weights");
  save_safetensors(path, {state.weights(kind), {}});
}

void DeepLearningTask::cancel() { impl_->cancel = true; }
Phase DeepLearningTask::phase() const { return impl_->trainer ? Phase::COMPILED : Phase::PLANNING; }

std::string DeepLearningTask::config_json() const {
  const CompiledRun& run = impl_->compiled("config_json").compiled();
  nlohmann::json config = to_json(run.config);
  config["device"] = std::string(name_of(run.device.kind));
  config["dataset.name"] = printable(run.data_name);
  config["global_batch_size"] = run.batches.global;
  config["local_batch_size"] = run.batches.local;
  return config.dump();
}

double DeepLearningTask::compile_ms() const { return impl_->compile_ms; }
std::string DeepLearningTask::data_name() const {
  return impl_->compiled("data_name").compiled().data_name;
}
std::string DeepLearningTask::find_nan() { return impl_->compiled("find_nan").find_nan(); }

std::vector<OpTime> DeepLearningTask::profile() { return impl_->compiled("profile").profile(); }

std::vector<VariantTimes> DeepLearningTask::step_times() const {
  return impl_->compiled("step_times").step_times();
}
std::string DeepLearningTask::graph(GraphFormat format) const {
  return impl_->compiled("graph").graph(format);
}
DeviceMemory DeepLearningTask::memory() const { return impl_->compiled("memory").memory(); }

}  // namespace tr
