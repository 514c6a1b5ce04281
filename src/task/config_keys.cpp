// SPDX-License-Identifier: Apache-2.0
// The table of configuration keys. docs/configuration.md is printed from it (renaissance info
// --keys).
#include <algorithm>
#include <array>
#include <string>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/format.h"
#include "task/config.h"
#include "task/freeze_plan.h"
#include "task/group_keys.h"
#include "task/init_keys.h"
#include "task/parse.h"

namespace tr {

namespace {

using json = nlohmann::json;
using Text = std::string_view;

template <typename T>
T number(Text value) {
  const auto parsed = parse_number<T>(value);
  TR_CHECK(parsed, "{}", number_fault<T>(value));
  return *parsed;
}

bool boolean(Text value) {
  const auto parsed = parse_bool(value);
  TR_CHECK(parsed, "\"{}\" is not a bool, expected true or false", value);
  return *parsed;
}

template <typename T>
T at_least(Text value, T minimum) {
  const T parsed = number<T>(value);
  TR_CHECK(parsed >= minimum, "it is {}, expected at least {}", parsed, minimum);
  return parsed;
}

std::int64_t bytes(Text value) {
  const auto parsed = parse_bytes(value);
  TR_CHECK(parsed, "\"{}\" is not a number of bytes, expected one such as 2147483648 or 2GiB",
           value);
  return *parsed;
}

std::vector<int> integers(Text value) {
  std::vector<int> result;
  if (!value.empty()) {
    for (const Text part : split(value, ',')) result.push_back(number<int>(trimmed(part)));
  }
  return result;
}

/// "224" is a square, "60,160" 60 pixels high.
ImageSize size_of(Text value) {
  std::vector<int> sides;
  for (const Text part : split(value, ',')) {
    const auto side = parse_number<int>(trimmed(part));
    TR_CHECK(side, "\"{}\" is no size, expected SIDE or HEIGHT,WIDTH in pixels", value);
    sides.push_back(*side);
  }
  TR_CHECK(sides.size() <= 2, "\"{}\" has {} sides, expected SIDE or HEIGHT,WIDTH in pixels", value,
           sides.size());
  return {sides.front(), sides.back()};
}

json json_of(ImageSize size) {
  if (size.height == size.width) return size.height;
  return fmt::format("{},{}", size.height, size.width);
}

std::vector<std::string> words(Text value) {
  std::vector<std::string> result;
  if (!value.empty()) {
    for (const Text part : split(value, ',')) {
      result.emplace_back(trimmed(part));
      TR_CHECK(!result.back().empty(), "\"{}\" names nothing before or behind a comma", value);
    }
  }
  return result;
}

void set_amp(Config& c, Text value) {
  if (value == "fp16" || value == "bf16") {
    c.global.amp(value == "fp16" ? DType::FP16 : DType::BF16);
    return;
  }
  const auto on = parse_bool(value);
  TR_CHECK(on, "\"{}\" is unknown, expected off, fp16 or bf16", value);
  c.global.amp(*on);
}

constexpr std::array<std::pair<Text, NormMode>, 5> kNormModes = {{{"none", NormMode::NO_NORM},
                                                                  {"mlperf", NormMode::MLPERF},
                                                                  {"imagenet", NormMode::IMAGENET},
                                                                  {"mnist", NormMode::MNIST},
                                                                  {"cifar", NormMode::CIFAR}}};

void set_normalization(Config& c, Text value) {
  for (const auto& [name, mode] : kNormModes) {
    if (name == value) {
      c.preprocessor.normalization(mode);
      return;
    }
  }
  TR_CHECK(false, "\"{}\" is unknown, expected none, mlperf, imagenet, mnist or cifar", value);
}

json get_normalization(const Config& c) {
  const Normalization& n = c.preprocessor.values().normalization;
  if (!n.mean.empty()) return {{"mean", n.mean}, {"std", n.std}};
  for (const auto& [name, mode] : kNormModes) {
    if (mode == n.mode) return std::string(name);
  }
  return nullptr;
}

constexpr std::array<Text, 3> kPolicies = {"fail", "skip", "replace"};

void set_policy(Config& c, Text value) {
  const auto found = std::find(kPolicies.begin(), kPolicies.end(), value);
  TR_CHECK(found != kPolicies.end(), "\"{}\" is unknown, expected fail, skip or replace", value);
  c.preprocessor.bad_sample_policy(BadSamplePolicy(found - kPolicies.begin()));
}

constexpr std::array<Text, 3> kDataPlaces = {"auto", "device", "host"};

DataPlace place_of(Text value) {
  const auto found = std::find(kDataPlaces.begin(), kDataPlaces.end(), value);
  TR_CHECK(found != kDataPlaces.end(), "\"{}\" is unknown, expected auto, device or host", value);
  return DataPlace(found - kDataPlaces.begin());
}

constexpr std::array<Text, 2> kExifPolicies = {"apply", "ignore"};

void set_exif(Config& c, Text value) {
  const auto found = std::find(kExifPolicies.begin(), kExifPolicies.end(), value);
  TR_CHECK(found != kExifPolicies.end(), "\"{}\" is unknown, expected apply or ignore", value);
  c.preprocessor.exif(ExifPolicy(found - kExifPolicies.begin()));
}

/// Turns a kind's name into its enumerator, for optimizer and scheduler, keeping the other fields.
void set_optimizer(Config& c, Text value) {
  c.train.optimizer.kind = optimizer_kind_from_name(value);
}

void set_label_smoothing(Config& c, Text value) {
  const float smoothing = number<float>(value);
  TR_CHECK(smoothing >= 0 && smoothing <= 1, "it is {}, expected 0 to 1", smoothing);
  bool found = false;
  for (LossTerm& term : c.train.loss.terms) {
    if (term.kind == LossTerm::Kind::CROSS_ENTROPY) term.label_smoothing = smoothing, found = true;
  }
  TR_CHECK(found, "the loss is {}, only cross_entropy takes it", c.train.loss.name());
}

json get_label_smoothing(const Config& c) {
  for (const LossTerm& term : c.train.loss.terms) {
    if (term.kind == LossTerm::Kind::CROSS_ENTROPY) return double(term.label_smoothing);
  }
  return 0.0;
}

void set_step_by(Config& c, Text value) {
  TR_CHECK(value == "epoch" || value == "batch", "\"{}\" is unknown, expected epoch or batch",
           value);
  c.train.scheduler.by_batch = value == "batch";
}

void set_warmup_start(Config& c, Text value) {
  c.train.scheduler.warmup_start_lr = number<double>(value);
  c.train.scheduler.warmup_start_factor = -1;
}

void set_ema(Config& c, Text value) {
  const float decay = number<float>(value);
  TR_CHECK(decay >= 0 && decay < 1, "it is {}, expected 0 (off) up to, but not, 1", decay);
  c.train.ema_decay = decay;
}

/// A field of the scheduler, or of its plateau.
template <auto Field>
void set_schedule(Config& c, Text value) {
  auto& field = c.train.scheduler.*Field;
  using T = std::remove_reference_t<decltype(field)>;
  if constexpr (std::is_same_v<T, bool>) {
    field = boolean(value);
  } else {
    field = number<T>(value);
  }
}
template <auto Field>
json get_schedule(const Config& c) {
  return c.train.scheduler.*Field;
}
template <auto Field>
void set_plateau(Config& c, Text value) {
  auto& field = c.train.scheduler.plateau.*Field;
  using T = std::remove_reference_t<decltype(field)>;
  if constexpr (std::is_same_v<T, bool>) {
    field = boolean(value);
  } else {
    field = number<T>(value);
  }
}
template <auto Field>
json get_plateau(const Config& c) {
  return c.train.scheduler.plateau.*Field;
}

std::string known_metric(Text value) {
  if (!value.empty()) metric_rises(value);
  return std::string(value);
}

constexpr std::array<Text, 3> kModes = {"auto", "min", "max"};

Plateau::Mode mode_from(Text value) {
  const auto found = std::find(kModes.begin(), kModes.end(), value);
  TR_CHECK(found != kModes.end(), "\"{}\" is unknown, expected auto, min or max", value);
  return Plateau::Mode(found - kModes.begin());
}
json mode_name(Plateau::Mode mode) { return kModes[std::size_t(mode)]; }

void set_freeze(Config& c, Text value) {
  c.train.freeze.clear();
  for (const std::string& word : words(value)) c.train.freeze.push_back(parse_freeze(word));
}

json get_freeze(const Config& c) {
  std::vector<std::string> rules;
  for (const Freeze& rule : c.train.freeze) rules.push_back(to_string(rule));
  return fmt::format("{}", fmt::join(rules, ","));
}

void set_scheduler(Config& c, Text value) {
  const Scheduler::Kind kind = scheduler_kind_from_name(value);
  TR_CHECK(kind != Scheduler::Kind::LAMBDA || c.train.scheduler.factor,
           "lambda takes its function from a program: LambdaLR(function)");
  c.train.scheduler.kind = kind;
}

void set_early_stop(Config& c, Text value) {
  const double threshold = number<double>(value);
  TR_CHECK(threshold >= 0 && threshold <= 1, "it is {}, expected a fraction from 0 (off) to 1",
           threshold);
  c.train.early_stop_top1 = threshold;
}

void set_dataset_name(Config& c, Text value) {
  c.preprocessor.dataset(std::string(value), c.preprocessor.values().dataset_path);
}
void set_dataset_path(Config& c, Text value) {
  c.preprocessor.dataset(c.preprocessor.values().dataset_name, std::string(value));
}

void set_workers(Config& c, Text value) {
  c.preprocessor.load_workers(0).preprocess_workers(number<int>(value));
}

void set_precision(Config& c, Text value) {
  std::vector<LayerPrecisionRule> rules;
  for (const std::string& part : words(value)) {
    const std::size_t equals = part.rfind('=');
    const std::string dtype = equals == std::string::npos ? "" : part.substr(equals + 1);
    TR_CHECK(dtype == "fp32" || dtype == "low",
             "\"{}\" is no rule, expected LAYER=fp32 or LAYER=low", part);
    rules.push_back({part.substr(0, equals), dtype == "low" ? LayerDType::LOW : LayerDType::FP32});
  }
  c.train.precision = std::move(rules);
}

json get_precision(const Config& c) {
  std::vector<std::string> parts;
  for (const LayerPrecisionRule& rule : c.train.precision) {
    parts.push_back(rule.layer + (rule.dtype == LayerDType::LOW ? "=low" : "=fp32"));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

int num_workers(const PreprocessorSetting::Values& v) {
  return v.load_workers + v.preprocess_workers;
}

json amp_name(const Config& c) {
  const auto& low = c.global.values().low_dtype;
  return low ? std::string(name_of(*low)) : "off";
}

// A row: name, type, doc, setter, getter, and whether it changes what is computed.

const ConfigKey kKeys[] = {
    {"accumulate_steps", "integer|auto",
     "micro-batches summed before one optimizer step; auto: as few as fit into memory",
     [](Config& c, Text v) {
       v == "auto" ? c.global.accumulate_auto() : c.global.accumulate_steps(number<int>(v));
     },
     [](const Config& c) -> json {
       if (c.global.values().accumulate_auto) return "auto";
       return c.global.values().accumulate_steps;
     }},
    {"adam_rate", "number", "muon, shampoo, soap: rate of what is no matrix over that of matrices",
     [](Config& c, Text v) { c.train.optimizer.adam_rate = number<double>(v); },
     [](const Config& c) -> json { return c.train.optimizer.adam_rate; }},
    {"alpha", "number", "rmsprop: weight of the past in the mean square",
     [](Config& c, Text v) { c.train.optimizer.alpha = number<double>(v); },
     [](const Config& c) -> json { return c.train.optimizer.alpha; }},
    {"always_adapt", "bool", "lars, lamb: parameters without weight decay too",
     [](Config& c, Text v) { c.train.optimizer.always_adapt = boolean(v); },
     [](const Config& c) -> json { return c.train.optimizer.always_adapt; }},
    {"amp", "off|fp16|bf16", "mixed precision; true is fp16", set_amp, amp_name},
    {"bad_sample_limit", "integer",
     "skip, replace: samples that may be bad; one more fails the run",
     [](Config& c, Text v) { c.preprocessor.bad_sample_limit(number<std::int64_t>(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().bad_sample_limit; }, false},
    {"bad_sample_policy", "fail|skip|replace", "what happens to a sample that cannot be read",
     set_policy,
     [](const Config& c) -> json {
       return std::string(kPolicies[std::size_t(c.preprocessor.values().bad_samples)]);
     }},
    {"base_lr", "number", "learning rate after warm-up",
     [](Config& c, Text v) { c.train.scheduler.base_lr = number<double>(v); },
     [](const Config& c) -> json { return c.train.scheduler.base_lr; }},
    {"beta1", "number", "adam and its like, lion: weight of the past in the first moment",
     [](Config& c, Text v) { c.train.optimizer.beta1 = number<double>(v); },
     [](const Config& c) -> json { return *c.train.optimizer.resolved().beta1; }},
    {"beta2", "number", "the same of the second moment; lion: in its moment, 0.99",
     [](Config& c, Text v) { c.train.optimizer.beta2 = number<double>(v); },
     [](const Config& c) -> json { return *c.train.optimizer.resolved().beta2; }},
    {"block_size", "integer", "shampoo: most rows and columns of a block of a matrix",
     [](Config& c, Text v) { c.train.optimizer.block_size = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.optimizer.block_size; }},
    {"centered", "bool", "rmsprop: by the variance, not the mean square",
     [](Config& c, Text v) { c.train.optimizer.centered = boolean(v); },
     [](const Config& c) -> json { return c.train.optimizer.centered; }},
    {"checkpoint.best", "text", "file for the weights of the best epoch",
     [](Config& c, Text v) { c.train.best_weights_path = v; },
     [](const Config& c) -> json { return c.train.best_weights_path; }, false},
    {"checkpoint.dir", "text", "folder for full checkpoints; empty: none",
     [](Config& c, Text v) { c.train.checkpoint_dir = v; },
     [](const Config& c) -> json { return c.train.checkpoint_dir; }, false},
    {"checkpoint.every", "integer", "epochs between checkpoints",
     [](Config& c, Text v) { c.train.checkpoint_every = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.checkpoint_every; }, false},
    {"checkpoint.every_steps", "integer", "steps between checkpoints; 0: only at epochs' ends",
     [](Config& c, Text v) { c.train.checkpoint_every_steps = at_least<int>(v, 0); },
     [](const Config& c) -> json { return c.train.checkpoint_every_steps; }, false},
    {"checkpoint.keep", "integer", "how many of the newest checkpoints stay",
     [](Config& c, Text v) { c.train.checkpoint_keep = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.checkpoint_keep; }, false},
    {"color_channels", "integer", "1 or 3; normally known from the set",
     [](Config& c, Text v) { c.preprocessor.color_channels(number<int>(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().color_channels; }},
    {"confusion_matrix", "bool", "validation counts predictions by class: macro_f1 in the log",
     [](Config& c, Text v) { c.train.confusion_matrix = boolean(v); },
     [](const Config& c) -> json { return c.train.confusion_matrix; }, false},
    {"cpu_binding", "bool", "bind worker threads to cores",
     [](Config& c, Text v) { c.preprocessor.cpu_binding(boolean(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().cpu_binding; }, false},
    {"cpu_ranks", "integer", "ranks as threads of this process",
     [](Config& c, Text v) { c.global.cpu_ranks(number<int>(v)); },
     [](const Config& c) -> json { return c.global.values().cpu_ranks; }},
    {"data_place", "auto|device|host", "where samples wait for their steps",
     [](Config& c, Text v) { c.preprocessor.data_place(place_of(v)); },
     [](const Config& c) -> json {
       return kDataPlaces[std::size_t(c.preprocessor.values().place)];
     },
     false},
    {"dataset.name", "text",
     "mnist, fashion-mnist, cifar-10, cifar-100, folder, imagenet, csv, procedural",
     set_dataset_name,
     [](const Config& c) -> json { return c.preprocessor.values().dataset_name; }},
    {"dataset.path", "text", "folder of the set; csv: or its list", set_dataset_path,
     [](const Config& c) -> json { return c.preprocessor.values().dataset_path; }, false},
    {"dataset.val_fraction", "number",
     "folder, imagenet, csv: part of each class that validation takes, where there is no split",
     [](Config& c, Text v) { c.preprocessor.val_fraction(number<double>(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().val_fraction; }},
    {"decay_start", "number",
     "wsd: fraction of the epochs after warm-up at which the rate begins to fall",
     [](Config& c, Text v) { c.train.scheduler.decay_start = number<double>(v); },
     [](const Config& c) -> json { return c.train.scheduler.decay_start; }},
    {"decode.crop_only", "bool", "picture files: only what the crop needs, the same pixels",
     [](Config& c, Text v) { c.preprocessor.decode_crop_only(boolean(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().decode_crop_only; }, false},
    {"decode.dct_scaling", "bool", "JPEG files: smaller where the crop is shrunk",
     [](Config& c, Text v) { c.preprocessor.dct_scaling(boolean(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().dct_scaling; }},
    {"decode.exif", "apply|ignore", "picture files: turned upright, or taken as stored", set_exif,
     [](const Config& c) -> json {
       return kExifPolicies[std::size_t(c.preprocessor.values().exif)];
     }},
    {"decode.fast_dct", "bool", "JPEG files: less exact transform, plain chroma upsampling",
     [](Config& c, Text v) { c.preprocessor.fast_dct(boolean(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().fast_dct; }},
    {"decode.remember_rows", "bool",
     "JPEG files cropped at random: where rows begin is kept, 656 bytes a picture; the same pixels",
     [](Config& c, Text v) { c.preprocessor.remember_rows(boolean(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().remember_rows; }, false},
    {"decoupled_weight_decay", "bool", "sgd: w *= 1 - lr * wd instead of g += wd * w",
     [](Config& c, Text v) { c.train.optimizer.decoupled_weight_decay = boolean(v); },
     [](const Config& c) -> json { return c.train.optimizer.decoupled_weight_decay; }},
    {"deterministic", "bool", "same seed, same bytes",
     [](Config& c, Text v) { c.global.deterministic(boolean(v)); },
     [](const Config& c) -> json { return c.global.values().deterministic; }},
    {"device", "cpu|cuda|cuda:I", "where to compute; empty: all GPUs, else the CPU",
     [](Config& c, Text v) {
       if (v.empty()) throw_as<InvalidArgument>("it is empty, expected cpu, cuda or cuda:I");
       const DeviceSetting d = DeviceSetting::parse(std::string(v));
       if (d.kind == DeviceSetting::Kind::CPU)
         c.global.use_cpu();
       else
         c.global.use_gpu(d.gpus.empty() ? "" : fmt::format("{}", fmt::join(d.gpus, ",")));
     },
     [](const Config& c) -> json { return c.global.values().device.str(); }},
    {"download", "bool", "fetch missing files into the set's folder",
     [](Config& c, Text v) { c.preprocessor.download(boolean(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().download; }, false},
    {"drop_last", "bool", "leave out the last, partial batch of an epoch",
     [](Config& c, Text v) { c.preprocessor.drop_last(boolean(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().drop_last; }},
    {"early_stop.metric", "text",
     "train_loss, train_top1, val_loss, top1, top5 or macro_f1: ends the run when it gets no "
     "better; empty: never",
     [](Config& c, Text v) { c.train.early_stop.metric = known_metric(v); },
     [](const Config& c) -> json { return c.train.early_stop.metric; }},
    {"early_stop.min_delta", "number", "least improvement that counts",
     [](Config& c, Text v) { c.train.early_stop.min_delta = at_least<double>(v, 0); },
     [](const Config& c) -> json { return c.train.early_stop.min_delta; }},
    {"early_stop.mode", "auto|min|max", "what is better; auto: losses fall, all else rises",
     [](Config& c, Text v) { c.train.early_stop.mode = mode_from(v); },
     [](const Config& c) { return mode_name(c.train.early_stop.mode); }},
    {"early_stop.patience", "integer", "epochs in a row without improvement that end the run",
     [](Config& c, Text v) { c.train.early_stop.patience = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.early_stop.patience; }},
    {"early_stop.restore_best", "bool", "the run ends with the weights of the best epoch",
     [](Config& c, Text v) { c.train.early_stop.restore_best = boolean(v); },
     [](const Config& c) -> json { return c.train.early_stop.restore_best; }},
    {"early_stop_top1", "number", "end the run once top-1 reaches this fraction; 0: never",
     set_early_stop, [](const Config& c) -> json { return c.train.early_stop_top1; }},
    {"ema_decay", "number", "average of the weights; 0: off", set_ema,
     [](const Config& c) -> json { return double(c.train.ema_decay); }},
    {"end_lr", "number", "polynomial, wsd: last learning rate",
     [](Config& c, Text v) { c.train.scheduler.end_lr = number<double>(v); },
     [](const Config& c) -> json { return c.train.scheduler.end_lr; }},
    {"eps", "number", "added to a divisor; adagrad: 1e-10, lamb: 1e-06",
     [](Config& c, Text v) { c.train.optimizer.eps = number<double>(v); },
     [](const Config& c) -> json { return *c.train.optimizer.resolved().eps; }},
    {"eta_min", "number",
     "cosine (1e-06 unless set), cosine_warm_restarts (0): lowest learning rate",
     [](Config& c, Text v) { c.train.scheduler.eta_min = number<double>(v); },
     [](const Config& c) -> json { return c.train.scheduler.lowest_rate(); }},
    {"freeze", "text",
     "name prefixes, comma between them, of parameters that are not trained; features.@1-5: in "
     "epochs 1 to 5",
     set_freeze, get_freeze},
    {"fully_mode", "bool", "read the whole set into memory first",
     [](Config& c, Text v) { c.preprocessor.fully_mode(boolean(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().fully; }, false},
    {"gamma", "number", "step, multi_step, exponential: factor of each fall",
     [](Config& c, Text v) { c.train.scheduler.gamma = number<double>(v); },
     [](const Config& c) -> json { return c.train.scheduler.gamma; }},
    {"global_batch_size", "integer", "samples of one step over ranks and micro-batches",
     [](Config& c, Text v) { c.global.global_batch_size(number<std::int64_t>(v)); },
     [](const Config& c) -> json { return c.global.values().global_batch_size; }},
    {"grad_clip_norm", "number", "largest global norm of the gradient; 0: off",
     [](Config& c, Text v) { c.train.grad_clip_norm = at_least<float>(v, 0); },
     [](const Config& c) -> json { return double(c.train.grad_clip_norm); }},
    {"grad_clip_value", "number", "largest absolute value of a gradient's element; 0: off",
     [](Config& c, Text v) { c.train.grad_clip_value = at_least<float>(v, 0); },
     [](const Config& c) -> json { return double(c.train.grad_clip_value); }},
    {"grafting", "none|sgd|adam", "shampoo: whose length a matrix's step has",
     [](Config& c, Text v) { c.train.optimizer.grafting = grafting_from_name(v); },
     [](const Config& c) -> json { return std::string(name_of(c.train.optimizer.grafting)); }},
    {"groups", "text",
     "rates of parameters, SELECTOR: lr*0.1 weight_decay=0.05 momentum=0.8 beta1=0.9 beta2=0.99, "
     "comma between them; a selector is a beginning of names with * for any characters, and "
     "@weight, @bias, @norm",
     [](Config& c, Text v) { c.train.groups = parse_groups(v); },
     [](const Config& c) -> json { return groups_text(c.train.groups); }},
    {"init.conv", "text", "first weights of conv: KIND or KIND:PARAM",
     [](Config& c, Text v) {
       const InitChoice choice = parse_init_choice(v);
       c.train.initializer.conv(choice.kind, choice.param);
     },
     [](const Config& c) -> json {
       const auto& init = c.train.initializer.options();
       return init_choice_text(init.conv_kind, init.conv_param);
     },
     false},
    {"init.fan", "fan_in|fan_out|fan_avg", "fan of the kinds that have one",
     [](Config& c, Text v) { c.train.initializer.fan(fan_mode_from_name(v)); },
     [](const Config& c) -> json {
       return std::string(name_of(c.train.initializer.options().fan));
     },
     false},
    {"init.fc", "text", "first weights of fc: KIND or KIND:PARAM",
     [](Config& c, Text v) {
       const InitChoice choice = parse_init_choice(v);
       c.train.initializer.fc(choice.kind, choice.param);
     },
     [](const Config& c) -> json {
       const auto& init = c.train.initializer.options();
       return init_choice_text(init.fc_kind, init.fc_param);
     },
     false},
    {"init.layers", "text", "PREFIX=KIND[:PARAM] or PREFIX=file:PATH[:PREFIX], comma between them",
     [](Config& c, Text v) { c.train.initializer.rules(parse_init_rules(v)); },
     [](const Config& c) -> json { return init_rules_text(c.train.initializer.options().rules); },
     false},
    {"init.scale", "number", "factor of the kinds that have a fan, and of orthogonal and sparse",
     [](Config& c, Text v) { c.train.initializer.scale(number<float>(v)); },
     [](const Config& c) -> json { return c.train.initializer.options().scale; }, false},
    {"init.slope", "number", "kaiming: negative slope of the activation that follows",
     [](Config& c, Text v) { c.train.initializer.nonlinearity(number<float>(v)); },
     [](const Config& c) -> json { return c.train.initializer.options().nonlinearity; }, false},
    {"init.zero_gamma", "bool", "norms that end a residual branch begin at 0",
     [](Config& c, Text v) { c.train.initializer.zero_gamma(boolean(v)); },
     [](const Config& c) -> json { return c.train.initializer.options().zero_gamma; }, false},
    {"initial_accumulator", "number", "adagrad: what sums of squares begin at",
     [](Config& c, Text v) { c.train.optimizer.initial_accumulator = number<double>(v); },
     [](const Config& c) -> json { return c.train.optimizer.initial_accumulator; }},
    {"keep_gradients", "bool", "GPU: gradients are written to memory, for fetch(\"0.weight.grad\")",
     [](Config& c, Text v) { c.train.keep_gradients = boolean(v); },
     [](const Config& c) -> json { return c.train.keep_gradients; }},
    {"label_smoothing", "number", "cross entropy, 0 to 1", set_label_smoothing,
     get_label_smoothing},
    {"linear.end_factor", "number", "linear: last learning rate, a factor of base_lr",
     set_schedule<&Scheduler::end_factor>, get_schedule<&Scheduler::end_factor>},
    {"linear.start_factor", "number", "linear: first learning rate, a factor of base_lr",
     set_schedule<&Scheduler::start_factor>, get_schedule<&Scheduler::start_factor>},
    {"linear.total_iters", "integer", "linear: epochs from the first to the last rate",
     set_schedule<&Scheduler::total_iters>, get_schedule<&Scheduler::total_iters>},
    {"load_weights", "text", "safetensors file that training starts from",
     [](Config& c, Text v) { c.train.load_weights = v; },
     [](const Config& c) -> json { return c.train.load_weights; }, false},
    {"load_weights_strict", "bool", "names and shapes must match exactly",
     [](Config& c, Text v) { c.train.load_strict = boolean(v); },
     [](const Config& c) -> json { return c.train.load_strict; }, false},
    {"load_workers", "integer", "threads that read samples; 0: chosen",
     [](Config& c, Text v) { c.preprocessor.load_workers(number<int>(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().load_workers; }, false},
    {"local_batch_size", "integer", "samples of one micro-batch of one rank",
     [](Config& c, Text v) { c.global.local_batch_size(number<std::int64_t>(v)); },
     [](const Config& c) -> json { return c.global.values().local_batch_size; }},
    {"locate_faults", "bool",
     "GPU: nodes run one by one and leave marks, so that an error of the device names its node",
     [](Config& c, Text v) { c.train.locate_faults = boolean(v); },
     [](const Config& c) -> json { return c.train.locate_faults; }, false},
    {"log_every", "integer", "steps between lines of the metrics log; 0: one line an epoch",
     [](Config& c, Text v) { c.train.log_every = at_least<int>(v, 0); },
     [](const Config& c) -> json { return c.train.log_every; }, false},
    {"log_file", "text", "metrics log, JSON lines; empty: none",
     [](Config& c, Text v) { c.train.log_file = v; },
     [](const Config& c) -> json { return c.train.log_file; }, false},
    {"loss_scale", "number", "fp16: first loss scale",
     [](Config& c, Text v) { c.train.loss_scale = at_least<float>(v, 1); },
     [](const Config& c) -> json { return double(c.train.loss_scale); }},
    {"loss_scale_growth", "integer", "fp16: good steps until the scale doubles; 0: never",
     [](Config& c, Text v) { c.train.loss_scale_growth = at_least<int>(v, 0); },
     [](const Config& c) -> json { return c.train.loss_scale_growth; }},
    {"lr_decay", "number", "adagrad: the rate falls as 1 / (1 + steps * lr_decay)",
     [](Config& c, Text v) { c.train.optimizer.lr_decay = number<double>(v); },
     [](const Config& c) -> json { return c.train.optimizer.lr_decay; }},
    {"match_rms", "bool", "muon: steps as long as AdamW's",
     [](Config& c, Text v) { c.train.optimizer.match_rms = boolean(v); },
     [](const Config& c) -> json { return c.train.optimizer.match_rms; }},
    {"max_preconditioner_dim", "integer", "soap: a longer side of a matrix has no basis of its own",
     [](Config& c, Text v) { c.train.optimizer.max_preconditioner_dim = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.optimizer.max_preconditioner_dim; }},
    {"memory_budget", "bytes",
     "of a rank's arena: nodes of the forward pass run again until it holds; 0: none does",
     [](Config& c, Text v) { c.train.memory_budget = bytes(v); },
     [](const Config& c) -> json { return c.train.memory_budget; }, false},
    {"memory_limit", "bytes", "what a run may take of its device's memory; 0: what is free",
     [](Config& c, Text v) { c.train.memory_limit = bytes(v); },
     [](const Config& c) -> json { return c.train.memory_limit; }, false},
    {"milestones", "integers", "multi_step: epochs, comma between them",
     [](Config& c, Text v) { c.train.scheduler.milestones = integers(v); },
     [](const Config& c) -> json {
       return fmt::format("{}", fmt::join(c.train.scheduler.milestones, ","));
     }},
    {"momentum", "number", "sgd, rmsprop, lars; muon: 0.95",
     [](Config& c, Text v) { c.train.optimizer.momentum = number<double>(v); },
     [](const Config& c) -> json { return *c.train.optimizer.resolved().momentum; }},
    {"nesterov", "bool", "sgd, lars: needs momentum; muon: true",
     [](Config& c, Text v) { c.train.optimizer.nesterov = boolean(v); },
     [](const Config& c) -> json { return *c.train.optimizer.resolved().nesterov; }},
    {"normalization", "none|mlperf|imagenet|mnist|cifar", "mean and deviation of the images",
     set_normalization, get_normalization},
    {"normalize_on", "auto|device|host", "where images of the loader are normalised",
     [](Config& c, Text v) { c.preprocessor.normalize_on(place_of(v)); },
     [](const Config& c) -> json {
       return kDataPlaces[std::size_t(c.preprocessor.values().normalize_on)];
     },
     false},
    {"not_matrices", "text",
     "muon, shampoo, soap: name prefixes, comma between them, of matrices that AdamW moves",
     [](Config& c, Text v) { c.train.optimizer.not_matrices = words(v); },
     [](const Config& c) -> json {
       return fmt::format("{}", fmt::join(c.train.optimizer.not_matrices, ","));
     }},
    {"one_cycle.base_momentum", "number",
     "one_cycle: momentum, or beta1, where the rate is highest",
     set_schedule<&Scheduler::base_momentum>, get_schedule<&Scheduler::base_momentum>},
    {"one_cycle.cycle_momentum", "bool", "one_cycle: the momentum falls while the rate rises",
     set_schedule<&Scheduler::cycle_momentum>, get_schedule<&Scheduler::cycle_momentum>},
    {"one_cycle.div_factor", "number", "one_cycle: base_lr over the first rate",
     set_schedule<&Scheduler::div_factor>, get_schedule<&Scheduler::div_factor>},
    {"one_cycle.final_div_factor", "number", "one_cycle: first rate over the last",
     set_schedule<&Scheduler::final_div_factor>, get_schedule<&Scheduler::final_div_factor>},
    {"one_cycle.linear", "bool", "one_cycle: by lines, not by cosines",
     set_schedule<&Scheduler::linear_anneal>, get_schedule<&Scheduler::linear_anneal>},
    {"one_cycle.max_momentum", "number", "one_cycle: momentum, or beta1, at the beginning and end",
     set_schedule<&Scheduler::max_momentum>, get_schedule<&Scheduler::max_momentum>},
    {"one_cycle.pct_start", "number", "one_cycle: fraction of the run in which the rate rises",
     set_schedule<&Scheduler::pct_start>, get_schedule<&Scheduler::pct_start>},
    {"one_cycle.three_phase", "bool", "one_cycle: falls as long as it rose, then to the last rate",
     set_schedule<&Scheduler::three_phase>, get_schedule<&Scheduler::three_phase>},
    {"optimizer", "sgd|adam|adamw|lion|rmsprop|adagrad|lars|lamb|muon|shampoo|soap",
     "rule that changes the weights", set_optimizer,
     [](const Config& c) -> json { return std::string(name_of(c.train.optimizer.kind)); }},
    {"plateau.cooldown", "integer", "plateau: epochs after a fall that do not count",
     set_plateau<&Plateau::cooldown>, get_plateau<&Plateau::cooldown>},
    {"plateau.factor", "number", "plateau: of the learning rate at each fall",
     set_plateau<&Plateau::factor>, get_plateau<&Plateau::factor>},
    {"plateau.metric", "text", "plateau: train_loss, train_top1, val_loss, top1, top5 or macro_f1",
     [](Config& c, Text v) { c.train.scheduler.plateau.metric = known_metric(v); },
     [](const Config& c) -> json { return c.train.scheduler.plateau.metric; }},
    {"plateau.min_lr", "number", "plateau: the learning rate falls no further",
     set_plateau<&Plateau::min_lr>, get_plateau<&Plateau::min_lr>},
    {"plateau.mode", "auto|min|max", "plateau: what is better",
     [](Config& c, Text v) { c.train.scheduler.plateau.mode = mode_from(v); },
     [](const Config& c) { return mode_name(c.train.scheduler.plateau.mode); }},
    {"plateau.patience", "integer", "plateau: epochs without improvement that are let pass",
     set_plateau<&Plateau::patience>, get_plateau<&Plateau::patience>},
    {"plateau.relative", "bool", "plateau: threshold is a fraction of the best value",
     set_plateau<&Plateau::relative>, get_plateau<&Plateau::relative>},
    {"plateau.threshold", "number", "plateau: least improvement", set_plateau<&Plateau::threshold>,
     get_plateau<&Plateau::threshold>},
    {"power", "number", "polynomial",
     [](Config& c, Text v) { c.train.scheduler.power = number<double>(v); },
     [](const Config& c) -> json { return c.train.scheduler.power; }},
    {"precision", "text", "LAYER=fp32 or LAYER=low, comma between them: what layers compute in",
     set_precision, get_precision},
    {"precondition_every", "integer", "shampoo, soap: steps between roots, or bases",
     [](Config& c, Text v) { c.train.optimizer.precondition_every = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.optimizer.precondition_every; }},
    {"preconditioner_beta", "number",
     "shampoo, soap: weight of the past in what gradients have in common; shampoo: 1, sums; soap: "
     "beta2",
     [](Config& c, Text v) { c.train.optimizer.preconditioner_beta = number<double>(v); },
     [](const Config& c) -> json { return *c.train.optimizer.resolved().preconditioner_beta; }},
    {"preprocess_workers", "integer", "threads that transform samples; 0: chosen",
     [](Config& c, Text v) { c.preprocessor.preprocess_workers(number<int>(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().preprocess_workers; }, false},
    {"rate_in_momentum", "bool", "lars: the paper's form, m = momentum * m + lr * g",
     [](Config& c, Text v) { c.train.optimizer.rate_in_momentum = boolean(v); },
     [](const Config& c) -> json { return c.train.optimizer.rate_in_momentum; }},
    {"read_timeout", "number", "seconds that reading one file may take; 0: any time",
     [](Config& c, Text v) { c.preprocessor.read_timeout(number<double>(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().read_timeout_s; }, false},
    {"resume", "bool", "continue from the newest checkpoint of checkpoint.dir",
     [](Config& c, Text v) { c.train.resume = boolean(v); },
     [](const Config& c) -> json { return c.train.resume; }, false},
    {"ridge", "number", "shampoo, soap: part of a preconditioner's norm added to its diagonal",
     [](Config& c, Text v) { c.train.optimizer.ridge = number<double>(v); },
     [](const Config& c) -> json { return c.train.optimizer.ridge; }},
    {"scheduler", "text",
     "constant, cosine, step, multi_step, exponential, polynomial, wsd, cosine_warm_restarts, "
     "linear, one_cycle, plateau; lambda in programs",
     set_scheduler,
     [](const Config& c) -> json { return std::string(name_of(c.train.scheduler.kind)); }},
    {"search_seconds", "number", "time to measure which engines a GPU runs fastest; 0: by rank",
     [](Config& c, Text v) { c.global.search_seconds(number<double>(v)); },
     [](const Config& c) -> json { return c.global.values().search_seconds; }, false},
    {"seed", "integer", "of every draw",
     [](Config& c, Text v) { c.global.manual_seed(number<std::uint64_t>(v)); },
     [](const Config& c) -> json { return c.global.values().seed; }},
    {"shuffle_train", "bool", "a new order in each epoch",
     [](Config& c, Text v) { c.preprocessor.shuffle_train(boolean(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().shuffle_train; }},
    {"step_by", "epoch|batch", "how often the learning rate changes", set_step_by,
     [](const Config& c) -> json { return c.train.scheduler.by_batch ? "batch" : "epoch"; }},
    {"step_size", "integer", "step: epochs between falls",
     [](Config& c, Text v) { c.train.scheduler.step_size = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.scheduler.step_size; }},
    {"t_0", "integer", "cosine_warm_restarts: epochs of the first cycle",
     [](Config& c, Text v) { c.train.scheduler.t_0 = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.scheduler.t_0; }},
    {"t_mult", "integer", "cosine_warm_restarts: growth of the cycles",
     [](Config& c, Text v) { c.train.scheduler.t_mult = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.scheduler.t_mult; }},
    {"threads", "integer", "compute threads of a rank; 0: the cores, shared out",
     [](Config& c, Text v) { c.global.threads(number<int>(v)); },
     [](const Config& c) -> json { return c.global.values().threads; }, false},
    {"timed_steps", "integer", "first steps of a run whose nodes run one by one and are timed",
     [](Config& c, Text v) { c.train.timed_steps = at_least<int>(v, 0); },
     [](const Config& c) -> json { return c.train.timed_steps; }, false},
    {"top_k", "integer", "places that the second accuracy, top5, takes",
     [](Config& c, Text v) { c.train.top_k = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.top_k; }, false},
    {"total_epochs", "integer", "passes over the training set",
     [](Config& c, Text v) { c.train.total_epochs = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.total_epochs; }, false},
    {"trace_file", "text",
     "Chrome trace of what the host does and of the timed steps (20 unless set); empty: none",
     [](Config& c, Text v) { c.train.trace_file = v; },
     [](const Config& c) -> json { return c.train.trace_file; }, false},
    {"train_resolution", "SIDE|HEIGHT,WIDTH", "pixels of the images in training",
     [](Config& c, Text v) { c.global.train_resolution(size_of(v)); },
     [](const Config& c) { return json_of(c.global.values().train_resolution); }},
    {"trust_clip", "bool", "lars, lamb: no step larger than without the trust ratio",
     [](Config& c, Text v) { c.train.optimizer.trust_clip = boolean(v); },
     [](const Config& c) -> json { return c.train.optimizer.trust_clip; }},
    {"trust_coefficient", "number", "lars: size of a step over that of the weights",
     [](Config& c, Text v) { c.train.optimizer.trust_coefficient = number<double>(v); },
     [](const Config& c) -> json { return c.train.optimizer.trust_coefficient; }},
    {"tuning_cache", "auto|off|PATH", "where engines measured by search_seconds are kept",
     [](Config& c, Text v) { c.global.tuning_cache(std::string(v)); },
     [](const Config& c) -> json { return c.global.values().tuning_cache; }, false},
    {"use_tf32", "bool", "TF32 in fp32 products on GPUs",
     [](Config& c, Text v) { c.global.use_tf32(boolean(v)); },
     [](const Config& c) -> json { return c.global.values().tf32; }},
    {"using_cpvs", "bool", "keep the processed validation set in memory",
     [](Config& c, Text v) { c.preprocessor.using_cpvs(boolean(v)); },
     [](const Config& c) -> json { return c.preprocessor.values().cpvs; }, false},
    {"val_resolution", "SIDE|HEIGHT,WIDTH", "pixels of the images in validation",
     [](Config& c, Text v) { c.global.val_resolution(size_of(v)); },
     [](const Config& c) { return json_of(c.global.values().val_resolution); }},
    {"validate_every", "integer", "epochs between validations",
     [](Config& c, Text v) { c.train.validate_interval = at_least<int>(v, 1); },
     [](const Config& c) -> json { return c.train.validate_interval; }, false},
    {"validate_offset", "integer", "first epoch that may be validated",
     [](Config& c, Text v) { c.train.validate_offset = at_least<int>(v, 0); },
     [](const Config& c) -> json { return c.train.validate_offset; }, false},
    {"warmup", "integer", "epochs in which the learning rate rises to base_lr",
     [](Config& c, Text v) { c.train.scheduler.warmup_epochs = at_least<int>(v, 0); },
     [](const Config& c) -> json { return c.train.scheduler.warmup_epochs; }},
    {"warmup_start_lr", "number", "where warm-up starts (no step has this rate)", set_warmup_start,
     [](const Config& c) -> json { return c.train.scheduler.warmup_start_lr; }},
    {"weight_decay", "number", "of the optimizer; biases and normalisation take none",
     [](Config& c, Text v) { c.train.optimizer.weight_decay = number<double>(v); },
     [](const Config& c) -> json { return c.train.optimizer.weight_decay; }},
    {"workers", "integer", "threads of the data pipeline; 0: chosen", set_workers,
     [](const Config& c) -> json { return num_workers(c.preprocessor.values()); }, false},
};

}  // namespace

std::span<const ConfigKey> config_keys() { return kKeys; }

}  // namespace tr
