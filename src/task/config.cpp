// SPDX-License-Identifier: Apache-2.0
#include "task/config.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/env.h"
#include "core/format.h"
#include "core/log.h"
#include "core/nearest_name.h"
#include "data/transforms/batch_mix.h"
#include "renaissance/data/datasets.h"
#include "task/parse.h"

namespace tr {

namespace {

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

nlohmann::json to_json(const Config& config) {
  nlohmann::json result = nlohmann::json::object();
  for (const ConfigKey& key : config_keys()) result[std::string(key.name)] = key.get(config);
  result["loss"] = config.train.loss.name();
  result["train_transforms"] = chain_json(config.preprocessor.values().train_transforms);
  result["val_transforms"] = chain_json(config.preprocessor.values().val_transforms);
  return result;
}

void validate(const Config& config) {
  const GlobalSetting::Values& global = config.global.values();
  const TrainOptions& train = config.train;
  config.preprocessor.commit();
  train.loss.validate();
  train.optimizer.validate();
  train.scheduler.validate();
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
  TR_CHECK(!train.resume || !train.checkpoint_dir.empty(),
           "resume is on, but checkpoint.dir is not set: there is no folder to continue from");
  TR_CHECK(train.checkpoint_every_steps == 0 || !train.checkpoint_dir.empty(),
           "checkpoint.every_steps is {}, but checkpoint.dir is not set",
           train.checkpoint_every_steps);
  TR_CHECK(train.log_every == 0 || !train.log_file.empty(),
           "log_every is {}, but log_file is not set", train.log_every);
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
