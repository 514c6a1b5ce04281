// SPDX-License-Identifier: Apache-2.0
#include "task/train_state.h"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/format.h"
#include "core/sha256.h"

namespace tr {

namespace {

using nlohmann::json;

/// JSON has no NaN and no infinity; a loss may be one.
json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_from(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const std::string text = value.get<std::string>();
  const double infinity = std::numeric_limits<double>::infinity();
  if (text == "inf") return infinity;
  if (text == "-inf") return -infinity;
  if (text != "nan")
    throw_as<DataError>("the number \"{}\" is unknown, expected nan, inf or -inf", text);
  return std::numeric_limits<double>::quiet_NaN();
}

json record_json(const EpochRecord& r) {
  return {{"epoch", r.epoch},
          {"train_loss", number_json(r.train_loss)},
          {"validated", r.validated},
          {"val_loss", number_json(r.val_loss)},
          {"top1", r.top1},
          {"top5", r.top5},
          {"macro_f1", r.macro_f1},
          {"lr", r.lr},
          {"images_per_s", r.images_per_s},
          {"data_wait_ms", r.data_wait_ms},
          {"read_ms", r.read_ms},
          {"decode_ms", r.decode_ms},
          {"transform_ms", r.transform_ms},
          {"normalise_ms", r.normalise_ms},
          {"mix_ms", r.mix_ms},
          {"feed", r.feed},
          {"train_top1", r.train_top1},
          {"skipped_steps", r.skipped_steps},
          {"bad_samples", r.bad_samples}};
}

EpochRecord record_from(const json& j) {
  EpochRecord r;
  r.epoch = j.at("epoch");
  r.train_loss = number_from(j.at("train_loss"));
  r.val_loss = number_from(j.at("val_loss"));
  r.validated = j.value("validated", r.val_loss != -1);  // older checkpoints: -1 where it was not
  r.top1 = j.at("top1");
  r.top5 = j.at("top5");
  r.lr = j.at("lr");
  r.images_per_s = j.at("images_per_s");
  r.data_wait_ms = j.at("data_wait_ms");
  // Absent in checkpoints of versions that did not measure them.
  r.read_ms = j.value("read_ms", 0.0);
  r.decode_ms = j.value("decode_ms", 0.0);
  r.transform_ms = j.value("transform_ms", 0.0);
  r.normalise_ms = j.value("normalise_ms", 0.0);
  r.mix_ms = j.value("mix_ms", 0.0);
  r.feed = j.value("feed", std::string());
  r.macro_f1 = j.value("macro_f1", -1.0);
  r.bad_samples = j.value("bad_samples", std::int64_t{0});
  r.train_top1 = j.at("train_top1");
  r.skipped_steps = j.at("skipped_steps");
  return r;
}

json watch_json(const WatchState& w) {
  return {{"best", number_json(w.best)}, {"waited", w.waited}};
}

WatchState watch_from(const json& j) { return {number_from(j.at("best")), j.at("waited")}; }

json control_json(const TrainState& s) {
  return {{"lr_factor", s.lr_factor},
          {"stopped_early", s.stopped_early},
          {"early_stop", watch_json(s.early_stop)},
          {"plateau", watch_json(s.plateau.seen)},
          {"plateau_cooldown", s.plateau.cooldown},
          {"plateau_factor", s.plateau.factor}};
}

void control_from(const json& j, TrainState& s) {
  s.lr_factor = j.at("lr_factor");
  s.stopped_early = j.at("stopped_early");
  s.early_stop = watch_from(j.at("early_stop"));
  s.plateau = {watch_from(j.at("plateau")), j.at("plateau_cooldown"), j.at("plateau_factor")};
}

}  // namespace

std::string TrainState::to_json(const CompiledRun& run, const std::string& digest) const {
  json j;
  const bool ended = std::size_t(phase) >= run.phases.size();
  j["in_validation"] = !ended && run.phases[std::size_t(phase)].split == data::Split::VAL;
  j["step"] = step;
  j["total_steps"] = total_steps;
  j["epoch"] = record_json(epoch);
  j["epoch_totals"] = {{"loss_sum", number_json(epoch_totals.loss_sum)},
                       {"samples", epoch_totals.samples},
                       {"top1", epoch_totals.top1},
                       {"top5", epoch_totals.top5}};
  j["train_seconds"] = train_seconds;
  j["train_images"] = train_images;
  j["all_train_seconds"] = all_train_seconds;
  j["history"] = json::array();
  for (const EpochRecord& record : history) j["history"].push_back(record_json(record));
  j["best_top1"] = best_top1;
  j["best_top5"] = best_top5;
  j["best_loss"] = number_json(best_loss);
  j["best_epoch"] = best_epoch;
  j["finished"] = finished;
  j["control"] = control_json(*this);
  j["model"] = digest;
  j["num_samples"] = {{"train", run.sizes.train}, {"val", run.sizes.val}};
  j["tuning"] = run.tuning.to_json();
  j["config"] = tr::to_json(run.config);
  return j.dump();
}

SavedState state_from_json(const std::string& text, const std::string& source) {
  try {
    const json j = json::parse(text);
    SavedState saved;
    TrainState& s = saved.state;
    saved.in_validation = j.at("in_validation");
    s.step = j.at("step");
    s.total_steps = j.at("total_steps");
    s.epoch = record_from(j.at("epoch"));
    s.epoch_totals = {number_from(j.at("epoch_totals").at("loss_sum")),
                      j.at("epoch_totals").at("samples"), j.at("epoch_totals").at("top1"),
                      j.at("epoch_totals").at("top5")};
    s.train_seconds = j.at("train_seconds");
    s.train_images = j.at("train_images");
    s.all_train_seconds = j.at("all_train_seconds");
    for (const json& record : j.at("history")) s.history.push_back(record_from(record));
    s.best_top1 = j.at("best_top1");
    s.best_top5 = j.at("best_top5");
    s.best_loss = number_from(j.at("best_loss"));
    s.best_epoch = j.at("best_epoch");
    s.finished = j.at("finished");
    // Absent in checkpoints of versions that had none of it.
    if (j.contains("control")) control_from(j.at("control"), s);
    saved.model_digest = j.at("model");
    if (j.contains("num_samples")) {
      saved.train_samples = j.at("num_samples").at("train");
      saved.val_samples = j.at("num_samples").at("val");
    }
    saved.tuning = TuningTable::from_json(j.at("tuning").get<std::string>());
    const json& config = j.at("config");
    if (!config.is_object())
      throw_as<DataError>("its configuration is {}, expected an object", config.type_name());
    saved.config = config.dump();
    if (s.step < 0 || s.total_steps < 0) throw_as<DataError>("a negative position");
    return saved;
  } catch (const json::exception& error) {
    throw_as<DataError>("{}: its state cannot be read: {}", source, error.what());
  } catch (const DataError& error) {
    throw_as<DataError>("{}: its state cannot be read: {}", source, error.what());
  }
}

std::vector<std::string> numeric_differences(const std::string& saved_config, const Config& now) {
  const json saved = json::parse(saved_config);
  std::vector<std::string> differences;
  for (const ConfigKey& key : config_keys()) {
    if (!key.numerics) continue;
    const json value = key.get(now);
    const auto found = saved.find(std::string(key.name));
    if (found != saved.end() && *found != value) {
      differences.push_back(fmt::format("{} was {}, is {}", key.name, found->dump(), value.dump()));
    }
  }
  const json now_json = tr::to_json(now);
  for (const char* extra : {"loss", "objectives", "train_transforms", "val_transforms"}) {
    if (saved.value(extra, json()) != now_json.at(extra)) {
      differences.push_back(fmt::format(
          "{} was {}, is {}", extra, saved.value(extra, json()).dump(), now_json.at(extra).dump()));
    }
  }
  return differences;
}

std::string model_digest(const ArchPlan& plan) {
  Sha256 hash;
  for (const ArchLayer& layer : plan.layers) {
    hash.update(fmt::format("{} {} {}", layer.name, layer.op, layer.attrs.text()));
    hash.update(fmt::format(" {}\n", fmt::join(layer.inputs, ",")));
  }
  for (const Param& param : plan.params) {
    hash.update(fmt::format("{} {}\n", param.name, to_string(param.spec.type)));
  }
  return hash.hex();
}

}  // namespace tr
