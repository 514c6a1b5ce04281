// SPDX-License-Identifier: Apache-2.0
// Options that were set and change nothing, with the reason.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/format.h"
#include "renaissance/data/datasets.h"
#include "task/config.h"

namespace tr {

namespace {

using Schedule = Scheduler::Kind;
using Rule = Optimizer::Kind;

/// A key that only some kinds of a choice read.
template <typename Kind>
struct KindKey {
  std::string_view key;
  std::vector<Kind> readers;
};

const KindKey<Schedule> kScheduleKeys[] = {
    {"decay_start", {Schedule::WSD}},
    {"end_lr", {Schedule::POLYNOMIAL, Schedule::WSD}},
    {"eta_min", {Schedule::COSINE, Schedule::COSINE_WARM_RESTARTS}},
    {"gamma", {Schedule::STEP, Schedule::MULTI_STEP, Schedule::EXPONENTIAL}},
    {"linear.end_factor", {Schedule::LINEAR}},
    {"linear.start_factor", {Schedule::LINEAR}},
    {"linear.total_iters", {Schedule::LINEAR}},
    {"milestones", {Schedule::MULTI_STEP}},
    {"one_cycle.base_momentum", {Schedule::ONE_CYCLE}},
    {"one_cycle.cycle_momentum", {Schedule::ONE_CYCLE}},
    {"one_cycle.div_factor", {Schedule::ONE_CYCLE}},
    {"one_cycle.final_div_factor", {Schedule::ONE_CYCLE}},
    {"one_cycle.linear", {Schedule::ONE_CYCLE}},
    {"one_cycle.max_momentum", {Schedule::ONE_CYCLE}},
    {"one_cycle.pct_start", {Schedule::ONE_CYCLE}},
    {"one_cycle.three_phase", {Schedule::ONE_CYCLE}},
    {"plateau.cooldown", {Schedule::PLATEAU}},
    {"plateau.factor", {Schedule::PLATEAU}},
    {"plateau.metric", {Schedule::PLATEAU}},
    {"plateau.min_lr", {Schedule::PLATEAU}},
    {"plateau.mode", {Schedule::PLATEAU}},
    {"plateau.patience", {Schedule::PLATEAU}},
    {"plateau.relative", {Schedule::PLATEAU}},
    {"plateau.threshold", {Schedule::PLATEAU}},
    {"power", {Schedule::POLYNOMIAL}},
    {"step_size", {Schedule::STEP}},
    {"t_0", {Schedule::COSINE_WARM_RESTARTS}},
    {"t_mult", {Schedule::COSINE_WARM_RESTARTS}}};

const KindKey<Rule> kOptimizerKeys[] = {
    {"adam_rate", {Rule::MUON, Rule::SHAMPOO, Rule::SOAP}},
    {"alpha", {Rule::RMSPROP}},
    {"always_adapt", {Rule::LARS, Rule::LAMB}},
    {"beta1",
     {Rule::ADAM, Rule::ADAMW, Rule::LION, Rule::LAMB, Rule::MUON, Rule::SHAMPOO, Rule::SOAP}},
    {"beta2",
     {Rule::ADAM, Rule::ADAMW, Rule::LION, Rule::LAMB, Rule::MUON, Rule::SHAMPOO, Rule::SOAP}},
    {"block_size", {Rule::SHAMPOO}},
    {"centered", {Rule::RMSPROP}},
    {"decoupled_weight_decay", {Rule::SGD}},
    {"eps",
     {Rule::ADAM, Rule::ADAMW, Rule::RMSPROP, Rule::ADAGRAD, Rule::LARS, Rule::LAMB, Rule::MUON,
      Rule::SHAMPOO, Rule::SOAP}},
    {"grafting", {Rule::SHAMPOO}},
    {"initial_accumulator", {Rule::ADAGRAD}},
    {"lr_decay", {Rule::ADAGRAD}},
    {"match_rms", {Rule::MUON}},
    {"max_preconditioner_dim", {Rule::SOAP}},
    {"momentum", {Rule::SGD, Rule::RMSPROP, Rule::LARS, Rule::MUON}},
    {"nesterov", {Rule::SGD, Rule::LARS, Rule::MUON}},
    {"not_matrices", {Rule::MUON, Rule::SHAMPOO, Rule::SOAP}},
    {"precondition_every", {Rule::SHAMPOO, Rule::SOAP}},
    {"preconditioner_beta", {Rule::SHAMPOO, Rule::SOAP}},
    {"rate_in_momentum", {Rule::LARS}},
    {"ridge", {Rule::SHAMPOO, Rule::SOAP}},
    {"trust_clip", {Rule::LARS, Rule::LAMB}},
    {"trust_coefficient", {Rule::LARS}}};

/// A key that means something only together with another one.
struct DependentKey {
  std::string_view key;
  bool (*is_read)(const Config&);
  std::string_view reason;
};

bool has_loss_scale(const Config& c) { return c.global.values().low_dtype == DType::FP16; }
bool has_warmup(const Config& c) { return c.train.scheduler.warmup_epochs > 0; }
bool in_files(const Config& c) {
  const std::string& name = c.preprocessor.values().dataset_name;
  return !name.empty() && dataset_traits(name).in_files;
}
/// A set that has no name is the user's own.
bool may_be_files(const Config& c) {
  return c.preprocessor.values().dataset_name.empty() || in_files(c);
}
bool has_checkpoints(const Config& c) { return !c.train.checkpoint_dir.empty(); }
bool has_early_stop(const Config& c) { return !c.train.early_stop.metric.empty(); }

constexpr std::string_view kNoFiles = "the set is no set of picture files, it is read as a whole";

constexpr DependentKey kDependentKeys[] = {
    {"bad_sample_limit",
     [](const Config& c) { return c.preprocessor.values().bad_samples != BadSamplePolicy::FAIL; },
     "with bad_sample_policy=fail the first bad sample fails the run"},
    {"checkpoint.every", has_checkpoints, "checkpoint.dir is not set"},
    {"checkpoint.keep", has_checkpoints, "checkpoint.dir is not set"},
    {"decode.crop_only", may_be_files, kNoFiles},
    {"decode.dct_scaling", may_be_files, kNoFiles},
    {"decode.exif", may_be_files, kNoFiles},
    {"decode.fast_dct", may_be_files, kNoFiles},
    {"decode.remember_rows",
     [](const Config& c) { return may_be_files(c) && c.preprocessor.values().decode_crop_only; },
     "the set is no set of picture files, or decode.crop_only is false"},
    {"early_stop.min_delta", has_early_stop, "early_stop.metric is not set"},
    {"early_stop.mode", has_early_stop, "early_stop.metric is not set"},
    {"early_stop.patience", has_early_stop, "early_stop.metric is not set"},
    {"early_stop.restore_best", has_early_stop, "early_stop.metric is not set"},
    {"load_weights_strict", [](const Config& c) { return !c.train.load_weights.empty(); },
     "load_weights is not set"},
    {"loss_scale", has_loss_scale, "without amp=fp16 gradients are not scaled"},
    {"loss_scale_growth", has_loss_scale, "without amp=fp16 gradients are not scaled"},
    {"read_timeout", in_files, kNoFiles},
    {"step_by",
     [](const Config& c) { return c.train.scheduler.kind != Schedule::CONSTANT || has_warmup(c); },
     "the learning rate is constant"},
    {"warmup_start_lr", has_warmup, "warmup is 0"}};

/// Collects notes on keys whose value is not the default.
class Notes {
 public:
  explicit Notes(const Config& config) : config_(config) {}

  void add(std::string text) { notes_.push_back(std::move(text)); }

  void unread(std::string_view name, std::string_view reason) {
    const auto keys = config_keys();
    const auto key =
        std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& k) { return k.name == name; });
    TR_ASSERT(key != keys.end());
    const nlohmann::json value = key->get(config_);
    if (value == key->get(Config{})) return;
    add(fmt::format("{}={}: {}", name, value.is_string() ? value.get<std::string>() : value.dump(),
                    reason));
  }

  template <typename Kind>
  void of_kind(std::span<const KindKey<Kind>> keys, std::string_view choice, Kind kind) {
    for (const auto& [key, readers] : keys) {
      if (std::find(readers.begin(), readers.end(), kind) == readers.end())
        unread(key, fmt::format("{} {} does not read it", choice, name_of(kind)));
    }
  }

  std::vector<std::string> take() { return std::move(notes_); }

 private:
  const Config& config_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> ineffective_options(const Config& config, DeviceKind device) {
  Notes notes(config);
  const GlobalSetting::Values& global = config.global.values();
  const PreprocessorSetting::Values& data = config.preprocessor.values();
  const bool cpu = device == DeviceKind::CPU;
  if (global.tf32 && cpu) notes.add("use_tf32: the CPU has no TF32, products are fp32");
  if (!global.deterministic && cpu)
    notes.add("deterministic=false: every CPU kernel is deterministic");
  const GlobalSetting::Values defaults;
  if (cpu && global.search_seconds != defaults.search_seconds)
    notes.add("search_seconds: the CPU's engines are chosen by rank");
  if (cpu && global.tuning_cache != defaults.tuning_cache)
    notes.add("tuning_cache: the CPU's engines are chosen by rank");
  if (!cpu && global.search_seconds == 0 && global.tuning_cache != defaults.tuning_cache)
    notes.add("tuning_cache: with search_seconds=0 nothing is measured and no cache is read");
  if (cpu && config.train.keep_gradients)
    notes.add("keep_gradients: on the CPU gradients are always written");
  if (config.train.locate_faults && cpu)
    notes.add("locate_faults: an error of the CPU always names its node");
  if (has(config.train.metrics, Metric::EMA_TOP1 | Metric::EMA_TOP5))
    notes.add(
        "metrics: EMA_TOP1 and EMA_TOP5 are no columns of their own, with ema_decay VAL_TOP1 "
        "and VAL_TOP5 are of the averaged weights");
  if (has(config.train.metrics, Metric::TRAIN_TOP5))
    notes.add("metrics: TRAIN_TOP5 has no column, training records its top-1 only");
  if (data.fully && !data.dataset_name.empty() && !in_files(config))
    notes.add("fully_mode: this set always lies in memory");
  notes.of_kind<Rule>(kOptimizerKeys, "optimizer", config.train.optimizer.kind);
  notes.of_kind<Schedule>(kScheduleKeys, "scheduler", config.train.scheduler.kind);
  for (const auto& [key, is_read, reason] : kDependentKeys) {
    if (!is_read(config)) notes.unread(key, reason);
  }
  return notes.take();
}

}  // namespace tr
