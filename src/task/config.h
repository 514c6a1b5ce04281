// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "renaissance/algo/initializer.h"
#include "renaissance/algo/loss.h"
#include "renaissance/algo/optimizer.h"
#include "renaissance/algo/param_group.h"
#include "renaissance/algo/scheduler.h"
#include "renaissance/core/types.h"
#include "renaissance/task/control.h"
#include "renaissance/task/setting.h"

namespace tr {

/// A rule of DeepLearningTask::precision().
struct LayerPrecisionRule {
  std::string layer;
  LayerDType dtype = LayerDType::FP32;
};

/// What the setters of a DeepLearningTask hold, beside the model and the data.
struct TrainOptions {
  Loss loss = {{LossTerm{}}};
  Optimizer optimizer;
  std::vector<ParamGroup> groups;
  Scheduler scheduler;
  Initializer initializer;
  int total_epochs = 10;
  int validate_interval = 1;
  int validate_offset = 0;
  double early_stop_top1 = 0;     // 0: off
  int top_k = 5;                  // of the second accuracy
  bool confusion_matrix = false;  // validation counts predictions by class
  Metric metrics = Metric::TRAIN_LOSS | Metric::VAL_LOSS | Metric::VAL_TOP1 | Metric::VAL_TOP5;
  float grad_clip_norm = 0;   // 0: off
  float grad_clip_value = 0;  // 0: off
  float ema_decay = 0;        // 0: off
  float loss_scale = 8192;    // fp16: initial
  int loss_scale_growth = 0;  // good steps until it doubles; 0: never
  std::string best_weights_path;
  std::string checkpoint_dir;
  int checkpoint_every = 1;        // epochs
  int checkpoint_every_steps = 0;  // 0: only at epochs' ends
  int checkpoint_keep = 2;
  bool resume = false;
  std::string load_weights;
  bool load_strict = true;
  std::vector<Freeze> freeze;
  std::vector<LayerPrecisionRule> precision;
  EarlyStop early_stop;
  std::vector<Objective> objectives;  // empty: loss and optimizer train everything
  std::string log_file;
  int log_every = 0;  // steps; 0: epochs only
  bool keep_gradients = false;
  bool locate_faults = false;
  std::int64_t memory_budget = 0;  // bytes of a rank's arena, by recomputation; 0: none
  std::int64_t memory_limit = 0;   // bytes of the device's memory; 0: what is free
  int timed_steps = 0;             // steps whose nodes are timed; 0: none
  std::string trace_file;          // empty: none
};

/// Everything that decides what a run computes, as plain values. A task's snapshot at compile().
struct Config {
  GlobalSetting global;
  PreprocessorSetting preprocessor;
  TrainOptions train;
};

/// One settable field of a Config: the only place that knows its name.
struct ConfigKey {
  std::string_view name;
  std::string_view
      type;  // "integer", "number", "bool", "text", or the words it takes: "off|fp16|bf16"
  std::string_view doc;
  void (*set)(Config&, std::string_view value);
  nlohmann::json (*get)(const Config&);
  bool numerics = true;  // changes what is computed: resume refuses another value
};

/// All keys, sorted by name.
std::span<const ConfigKey> config_keys();

/// @throws InvalidArgument  an unknown key (with the nearest one), or a value that the key does not
/// take.
void set_config(Config& config, std::string_view key, std::string_view value);

struct KeyValue {
  std::string key, value;
};

/// Reads "a=b;c=d": spaces around parts are dropped, a last ";" may stand.
/// @throws InvalidArgument  a part without "=", an empty key, a key given twice; `source` names the
/// origin.
std::vector<KeyValue> parse_assignments(std::string_view text, std::string_view source);

/// Sets each pair in order. @throws InvalidArgument  as set_config.
void apply_assignments(Config& config, std::span<const KeyValue> pairs);

/// Applies the environment's TR_OVERRIDE, and logs what it changed.
void apply_environment_override(Config& config);

/// All keys with their values, and what no key can set (transforms, loss, initialisation) as text.
nlohmann::json to_json(const Config& config);

void validate(const EarlyStop& stop);
void validate(const Freeze& rule);
void validate(const Objective& objective);

/// A file that a run writes whole: one name would hold what was written last.
struct OutputFile {
  std::string_view what;  // "log_file", "--json"
  std::string path;       // empty: none
};
/// @throws InvalidArgument  two have one place.
void check_own_places(const std::vector<OutputFile>& files);
/// Those that the keys name.
std::vector<OutputFile> output_files(const TrainOptions& train);

/// @throws InvalidArgument  something is to be read or written that has no folder or file, or whose
/// file has another use.
void check_places(const TrainOptions& train);
/// Checks fields against each other and against their ranges. @throws InvalidArgument, Unsupported.
void validate(const Config& config);

/// One sentence for each option that is set but changes nothing on `device`, with the reason.
std::vector<std::string> ineffective_options(const Config& config, DeviceKind device);

}  // namespace tr
