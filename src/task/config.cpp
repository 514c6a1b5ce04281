// SPDX-License-Identifier: Apache-2.0
#include "task/config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "algo/optimizer_spec.h"
#include "core/check.h"
#include "core/env.h"
#include "core/format.h"
#include "core/log.h"
#include "core/nearest_name.h"
#include "core/printable.h"
#include "data/transforms/batch_mix.h"
#include "renaissance/data/datasets.h"
#include "task/parse.h"

namespace tr {

namespace {

namespace fs = std::filesystem;

/// A path that two names of one place share, as far as it exists.
fs::path plain_path(const fs::path& path) {
  std::error_code failed;
  const fs::path plain = fs::weakly_canonical(fs::absolute(path.empty() ? "." : path), failed);
  return failed ? path.lexically_normal() : plain;
}

/// Devices and pipes hold nothing that could be overwritten.
bool is_stored(const std::string& path) {
  std::error_code failed;
  return !path.empty() && (!fs::exists(path, failed) || fs::is_regular_file(path, failed));
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const ConfigKey& key : config_keys()) names.emplace_back(key.name);
  return names;
}

nlohmann::json chain_json(const std::vector<Transform>& steps) {
  nlohmann::json list = nlohmann::json::array();
  for (const Transform& step : steps) list.push_back(to_string(step));
  return list;
}

}  // namespace

void set_config(Config& config, std::string_view key, std::string_view value) {
  const auto keys = config_keys();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& k) { return k.name == key; });
  if (found == keys.end()) {
    const auto names = key_names();
    throw_as<InvalidArgument>("{}", unknown_name_message("configuration key", key, names));
  }
  try {
    found->set(config, value);
  } catch (const InvalidArgument& error) {
    throw_as<InvalidArgument>("{}={}: {}", key, value, error.what());
  }
}

std::vector<KeyValue> parse_assignments(std::string_view text, std::string_view source) {
  std::vector<KeyValue> pairs;
  std::vector<std::string_view> parts = split(text, ';');
  if (trimmed(parts.back()).empty()) parts.pop_back();
  for (const std::string_view part : parts) {
    const std::size_t equals = part.find('=');
    TR_CHECK(equals != std::string_view::npos, "{}: \"{}\" has no \"=\", expected key=value",
             source, part);
    KeyValue pair{std::string(trimmed(part.substr(0, equals))),
                  std::string(trimmed(part.substr(equals + 1)))};
    TR_CHECK(!pair.key.empty(), "{}: \"{}\" has no key before \"=\"", source, part);
    const bool twice =
        std::any_of(pairs.begin(), pairs.end(), [&](const auto& p) { return p.key == pair.key; });
    TR_CHECK(!twice, "{}: {} is given twice", source, pair.key);
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

void apply_assignments(Config& config, std::span<const KeyValue> pairs) {
  for (const auto& [key, value] : pairs) set_config(config, key, value);
}

void apply_environment_override(Config& config) {
  const auto text = read_env("TR_OVERRIDE");
  if (!text) return;
  try {
    const auto pairs = parse_assignments(*text, "TR_OVERRIDE");
    for (const auto& [key, value] : pairs) {
      set_config(config, key, value);
      log_info("TR_OVERRIDE sets {} to \"{}\"", key, value);
    }
  } catch (const InvalidArgument& error) {
    const std::string message = error.what();
    if (message.rfind("TR_OVERRIDE", 0) == 0) throw;
    throw_as<InvalidArgument>("TR_OVERRIDE: {}", message);
  }
}

namespace {

/// What decides the numbers of an objective: its loss, and every key of its own optimizer and
/// scheduler that has not the default value.
std::string text_of(const Objective& objective) {
  const Config plain;
  Config own;
  own.train.optimizer = objective.optimizer;
  if (objective.scheduler) own.train.scheduler = *objective.scheduler;
  std::string text = fmt::format("{}: {} by {}", objective.trains, objective.loss.text(),
                                 name_of(objective.optimizer.kind));
  for (const ConfigKey& key : config_keys()) {
    const nlohmann::json value = key.get(own);
    if (value != key.get(plain)) text += fmt::format(", {}={}", key.name, value.dump());
  }
  return text;
}

}  // namespace

nlohmann::json to_json(const Config& config) {
  nlohmann::json result = nlohmann::json::object();
  for (const ConfigKey& key : config_keys()) {
    nlohmann::json value = key.get(config);
    if (value.is_string()) value = printable(value.get<std::string>());  // paths may be no UTF-8
    result[std::string(key.name)] = std::move(value);
  }
  result["loss"] = config.train.loss.text();
  result["objectives"] = nlohmann::json::array();
  for (const Objective& objective : config.train.objectives)
    result["objectives"].push_back(text_of(objective));
  result["train_transforms"] = chain_json(config.preprocessor.values().train_transforms);
  result["val_transforms"] = chain_json(config.preprocessor.values().val_transforms);
  return result;
}

void validate(const EarlyStop& stop) {
  if (stop.metric.empty()) return;
  metric_rises(stop.metric);
  TR_CHECK(stop.patience >= 1, "early_stop: patience is {}, expected at least 1", stop.patience);
  TR_CHECK(stop.min_delta >= 0 && std::isfinite(stop.min_delta),
           "early_stop: min_delta is {}, expected at least 0", stop.min_delta);
}

void validate(const Freeze& rule) {
  TR_CHECK(rule.first >= 1, "freeze: the first epoch of \"{}\" is {}, expected at least 1",
           rule.prefix, rule.first);
  TR_CHECK(rule.last == 0 || rule.last >= rule.first,
           "freeze: the last epoch of \"{}\" is {}, expected 0 (to the end) or at least {}",
           rule.prefix, rule.last, rule.first);
}

void validate(const Objective& objective) {
  TR_CHECK(!objective.trains.empty(), "objective: trains is empty, expected a prefix of names");
  objective.loss.validate();
  objective.optimizer.validate();
  if (!objective.scheduler) return;
  objective.scheduler->validate();
  TR_CHECK(objective.scheduler->kind != Scheduler::Kind::PLATEAU,
           "objective \"{}\": its scheduler is plateau, which only the task's own may be",
           objective.trains);
}

namespace {

void validate_objectives(const Config& config) {
  const std::vector<Objective>& all = config.train.objectives;
  if (all.empty()) return;
  const GlobalSetting::Values& global = config.global.values();
  for (const Objective& objective : all) {
    validate(objective);
    for (const Objective& other : all) {
      TR_CHECK(&other == &objective || !other.trains.starts_with(objective.trains),
               "objectives: \"{}\" and \"{}\" train the same parameters", objective.trains,
               other.trains);
    }
  }
  constexpr std::size_t kMost = 16;
  TR_CHECK(all.size() <= kMost, "objectives: there are {}, expected at most {}", all.size(), kMost);
  const auto refuse = [](bool refused, std::string_view what) {
    if (refused) throw_as<Unsupported>("objectives: several in a task do not go with {}", what);
  };
  refuse(global.low_dtype == DType::FP16, "amp=fp16 (its loss scale); amp=bf16 does");
  refuse(global.accumulate_steps > 1 || global.accumulate_auto, "accumulate_steps above 1");
  refuse(config.train.memory_budget > 0, "memory_budget");
  refuse(!config.train.groups.empty(), "param_groups");
  for (const Objective& objective : all)
    refuse(moves_matrices(objective.optimizer.kind), name_of(objective.optimizer.kind));
  refuse(global.cpu_ranks > 1, "several ranks");
}

}  // namespace

void validate(const Config& config) {
  const GlobalSetting::Values& global = config.global.values();
  const TrainOptions& train = config.train;
  config.preprocessor.commit();
  train.loss.validate();
  train.optimizer.validate();
  train.scheduler.validate();
  if (train.scheduler.kind == Scheduler::Kind::PLATEAU)
    metric_rises(train.scheduler.plateau.metric);
  validate(train.early_stop);
  validate_objectives(config);
  for (const ParamGroup& group : train.groups) group.validate();
  for (const Freeze& rule : train.freeze) validate(rule);
  constexpr int kMostEpochs = 1'000'000;  // the plan of a run lists them
  TR_CHECK(train.total_epochs <= kMostEpochs, "total_epochs is {}, expected 1 to {}",
           train.total_epochs, kMostEpochs);
  TR_CHECK(global.global_batch_size > 0 || global.local_batch_size > 0,
           "no batch size is set, expected global_batch_size or local_batch_size of at least 1");
  TR_CHECK(global.device.kind != DeviceSetting::Kind::CUDA || global.cpu_ranks == 1,
           "cpu_ranks is {} and device is {}: ranks as threads exist on the CPU only",
           global.cpu_ranks, global.device.str());
  const PreprocessorSetting::Values& data = config.preprocessor.values();
  constexpr int kMostWorkers = 256;  // of a loader
  TR_CHECK(data.load_workers + data.preprocess_workers <= kMostWorkers,
           "load_workers is {} and preprocess_workers is {}, expected at most {} together",
           data.load_workers, data.preprocess_workers, kMostWorkers);
  TR_CHECK(train.grad_clip_norm == 0 || train.grad_clip_value == 0,
           "grad_clip_norm is {} and grad_clip_value is {}, expected one of them to be 0 (off)",
           train.grad_clip_norm, train.grad_clip_value);
  check_places(train);
}

std::vector<OutputFile> output_files(const TrainOptions& train) {
  return {{"checkpoint.best", train.best_weights_path},
          {"log_file", train.log_file},
          {"trace_file", train.trace_file}};
}

void check_own_places(const std::vector<OutputFile>& files) {
  for (auto a = files.begin(); a != files.end(); ++a) {
    for (auto b = a + 1; b != files.end(); ++b) {
      const bool stored = is_stored(a->path) && is_stored(b->path);
      TR_CHECK(!stored || plain_path(a->path) != plain_path(b->path),
               "{} and {} are both \"{}\", expected a file for each", a->what, b->what, b->path);
    }
  }
}

void check_places(const TrainOptions& train) {
  TR_CHECK(!train.resume || !train.checkpoint_dir.empty(),
           "resume is on, but checkpoint.dir is not set: there is no folder to continue from");
  TR_CHECK(train.checkpoint_every_steps == 0 || !train.checkpoint_dir.empty(),
           "checkpoint.every_steps is {}, but checkpoint.dir is not set",
           train.checkpoint_every_steps);
  TR_CHECK(train.log_every == 0 || !train.log_file.empty(),
           "log_every is {}, but log_file is not set", train.log_every);
  check_own_places(output_files(train));
  const fs::path best = train.best_weights_path, folder = train.checkpoint_dir;
  const std::string name = best.filename().string();
  const bool among_them =
      !best.empty() && !folder.empty() && plain_path(best.parent_path()) == plain_path(folder);
  TR_CHECK(
      !among_them || (name != "best.safetensors" && !name.starts_with("checkpoint-")),
      "checkpoint.best is \"{}\", which is the name of a checkpoint in checkpoint.dir, expected "
      "another one, such as best_weights.safetensors",
      train.best_weights_path);
}

void PreprocessorSetting::commit() const {
  if (!values_.dataset_name.empty()) dataset_traits(values_.dataset_name);
  TR_CHECK(values_.dataset_path.empty() || !values_.dataset_name.empty(),
           "dataset.path is \"{}\", but dataset.name is not set", values_.dataset_path);
  const TransformChain validation{values_.val_transforms, values_.normalization};
  TR_CHECK(!data::mixes_batches(validation),
           "val_transforms are {}: Mixup and CutMix mix training batches, validation takes its "
           "pictures as they are",
           validation.str());
  TR_CHECK(!values_.cpvs || !validation.is_random(),
           "using_cpvs is on, but the validation transforms draw numbers ({}): a cached set would "
           "repeat one draw",
           validation.str());
  if (values_.dts) {
    throw_as<Unsupported>("using_dts_format: this version reads no DTS files; leave it off");
  }
}

}  // namespace tr
