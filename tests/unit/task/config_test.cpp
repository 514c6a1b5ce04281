// SPDX-License-Identifier: Apache-2.0
#include "task/config.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "renaissance.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "toy.h"

namespace tr {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The text that sets a key to a value as JSON has it.
std::string as_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

TEST(ConfigKeys, AreSortedAndDocumented) {
  std::string before;
  for (const ConfigKey& key : config_keys()) {
    EXPECT_LT(before, key.name);
    before = std::string(key.name);
    EXPECT_FALSE(key.doc.empty()) << key.name;
  }
}

TEST(ConfigKeys, EveryValueGoesOutAndInAgain) {
  Config config;
  config.global.use_cpu().global_batch_size(32).local_batch_size(32).input_resolution(28).amp(
      DType::BF16);
  config.preprocessor.dataset("mnist", "/some/where").color_channels(1);
  config.global.val_resolution({60, 160});
  config.train.freeze = {{"0."}, {"2.", 2, 3}};
  config.train.scheduler.milestones = {3, 5};
  for (const ConfigKey& key : config_keys()) {
    const nlohmann::json value = key.get(config);
    Config copy = config;
    set_config(copy, key.name, as_text(value));
    EXPECT_EQ(key.get(copy), value) << key.name;
  }
}

TEST(ConfigKeys, BytesMayHaveAUnit) {
  Config config;
  set_config(config, "memory_limit", "2147483648");
  EXPECT_EQ(config.train.memory_limit, std::int64_t{1} << 31);
  set_config(config, "memory_limit", "1.5GiB");
  EXPECT_EQ(config.train.memory_limit, std::int64_t{3} << 29);
  set_config(config, "memory_budget", "8 TiB");
  EXPECT_EQ(config.train.memory_budget, std::int64_t{1} << 43);
}

TEST(ConfigKeys, ResolutionsAreSquaresOrRectangles) {
  Config config;
  set_config(config, "train_resolution", "60, 160");
  set_config(config, "val_resolution", "32,32");
  EXPECT_EQ(config.global.values().train_resolution, ImageSize(60, 160));
  EXPECT_EQ(config.global.values().val_resolution, ImageSize(32));
  EXPECT_EQ(to_json(config)["train_resolution"], "60,160");
  EXPECT_EQ(to_json(config)["val_resolution"], 32);
  EXPECT_TRUE(contains(message_of([&] { set_config(config, "val_resolution", "[60,160]"); }),
                       "\"[60,160]\" is no size, expected SIDE or HEIGHT,WIDTH"));
  EXPECT_EQ(message_of([&] {
              config.global.val_resolution({4, 0});
            }),
            "val_resolution is [4, 0], expected sides of at least 1 pixel");
}

TEST(ConfigKeys, NumbersThatAKeyDoesNotHoldAreToldWithWhatItHolds) {
  const std::tuple<const char*, const char*, const char*> wrong[] = {
      {"total_epochs", "99999999999", "expected an integer from -2147483648 to 2147483647"},
      {"seed", "-1", "expected an integer from 0 to 18446744073709551615"},
      {"global_batch_size", "9223372036854775808", "is out of range, expected an integer from"},
      {"grad_clip_norm", "1e308", "expected 0 or a number of 1.4e-45 to 3.4e+38 in size"},
      {"grad_clip_norm", "1e-50", "expected 0 or a number of 1.4e-45 to 3.4e+38 in size"},
      {"base_lr", "-1e999", "expected 0 or a number of 4.9e-324 to 1.8e+308 in size"},
      {"init.fc", "constants:1e39", "\"1e39\" is out of range, expected 0 or a number of 1.4e-45"},
      {"grad_clip_norm", "1e3x", "\"1e3x\" is not a number"},
      {"grad_clip_norm", "inf", "\"inf\" is not a number"},
      {"total_epochs", "1.5", "\"1.5\" is not an integer"},
      {"total_epochs", "-", "\"-\" is not an integer"}};
  for (const auto& [key, value, words] : wrong) {
    Config config;
    const std::string message = message_of([&, k = key, v = value] { set_config(config, k, v); });
    EXPECT_TRUE(contains(message, words)) << key << "=" << value << ": " << message;
  }
}

TEST(ConfigKeys, UnknownOnesGetTheNearestName) {
  Config config;
  const std::string message = message_of([&] { set_config(config, "weight_decai", "1"); });
  EXPECT_TRUE(contains(message, "weight_decai") && contains(message, "\"weight_decay\""))
      << message;
}

TEST(ConfigKeys, ValuesAreReadStrictly) {
  const std::pair<const char*, const char*> wrong[] = {{"total_epochs", "0"},
                                                       {"total_epochs", "-1"},
                                                       {"total_epochs", "3x"},
                                                       {"total_epochs", ""},
                                                       {"total_epochs", " 3"},
                                                       {"total_epochs", "1e1"},
                                                       {"total_epochs", "99999999999"},
                                                       {"base_lr", "nan"},
                                                       {"base_lr", "inf"},
                                                       {"base_lr", "0,1"},
                                                       {"seed", "-1"},
                                                       {"nesterov", "yes"},
                                                       {"amp", "fp8"},
                                                       {"device", ""},
                                                       {"device", "gpu"},
                                                       {"device", "cuda:"},
                                                       {"device", "cuda:0,0"},
                                                       {"device", "cuda:3-1"},
                                                       {"optimizer", "adamx"},
                                                       {"global_batch_size", "0"},
                                                       {"label_smoothing", "1.5"},
                                                       {"ema_decay", "1"},
                                                       {"step_by", "second"},
                                                       {"milestones", "3,,5"},
                                                       {"threads", "-1"},
                                                       {"memory_budget", "-1"},
                                                       {"memory_budget", "-1KiB"},
                                                       {"memory_limit", "2GB"},
                                                       {"memory_limit", "99999999TiB"},
                                                       {"train_resolution", ""},
                                                       {"train_resolution", "0"},
                                                       {"train_resolution", "28,"},
                                                       {"train_resolution", "28,0"},
                                                       {"train_resolution", "28,28,3"},
                                                       {"val_resolution", "-1,28"},
                                                       {"val_resolution", "28x28"},
                                                       {"scheduler", "cosin"}};
  for (const auto& [key, value] : wrong) {
    Config config;
    const std::string message = message_of([&, k = key, v = value] { set_config(config, k, v); });
    EXPECT_TRUE(contains(message, key)) << key << "=" << value << ": " << message;
  }
}

TEST(Override, ReadsPairs) {
  const auto pairs =
      parse_assignments(" device = cpu ;total_epochs=1; dataset.path=/a=b ;", "TR_OVERRIDE");
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0].key, "device");
  EXPECT_EQ(pairs[0].value, "cpu");
  EXPECT_EQ(pairs[2].value, "/a=b");
  EXPECT_TRUE(parse_assignments("", "x").empty());
  EXPECT_THROW(parse_assignments("device", "x"), InvalidArgument);
  EXPECT_THROW(parse_assignments("=cpu", "x"), InvalidArgument);
  EXPECT_THROW(parse_assignments("a=1;;b=2", "x"), InvalidArgument);
  EXPECT_THROW(parse_assignments("a=1;a=2", "x"), InvalidArgument);
}

TEST(Override, WinsOverTheProgramAndIsAnnounced) {
  std::vector<std::string> log;
  const LogSink former =
      set_log_sink([&](LogLevel, std::string_view text) { log.emplace_back(text); });
  ::setenv("TR_OVERRIDE", "total_epochs=4;base_lr=0.5", 1);
  Config config;
  config.train.total_epochs = 9;
  apply_environment_override(config);
  EXPECT_EQ(config.train.total_epochs, 4);
  EXPECT_EQ(config.train.scheduler.base_lr, 0.5);
  ::setenv("TR_OVERRIDE", "total_epoch=4", 1);
  const std::string message = message_of([&] { apply_environment_override(config); });
  EXPECT_TRUE(contains(message, "TR_OVERRIDE") && contains(message, "total_epochs")) << message;
  ::unsetenv("TR_OVERRIDE");
  set_log_sink(former);
  ASSERT_GE(log.size(), 2u);
  EXPECT_TRUE(contains(log[0], "TR_OVERRIDE sets total_epochs")) << log[0];
}

TEST(Settings, DeviceListsAreReadOrRefused) {
  EXPECT_EQ(DeviceSetting::parse_gpus("0").gpus, std::vector<int>({0}));
  EXPECT_EQ(DeviceSetting::parse_gpus("3,0-1").gpus, std::vector<int>({0, 1, 3}));
  for (const char* wrong : {"a", "0,", "-1", "1-", "2-1", "0,0", "0 1", "99999"}) {
    EXPECT_THROW(DeviceSetting::parse_gpus(wrong), InvalidArgument) << wrong;
  }
  GlobalSetting setting;
  EXPECT_THROW(setting.use_gpu("zero"), InvalidArgument);
  EXPECT_EQ(setting.values().device.kind, DeviceSetting::Kind::UNSET)
      << "a bad list changes nothing";
}

TEST(Settings, DefaultSessionCanBeReset) {
  GLOBAL_SETTING.manual_seed(5).global_batch_size(11);
  PREPROCESSOR_SETTING.dataset("mnist", "x").commit();
  EXPECT_EQ(default_session().global.values().seed, 5u);
  reset_session();
  EXPECT_EQ(default_session().global.values().seed, 0u);
  EXPECT_TRUE(default_session().preprocessor.values().dataset_name.empty());
}

TEST(Settings, ContradictionsAreErrors) {
  Config config;
  config.global.use_cpu();
  EXPECT_TRUE(contains(message_of([&] { validate(config); }), "batch size"));
  config.global.global_batch_size(32);
  validate(config);
  Config both = config;
  both.train.grad_clip_norm = both.train.grad_clip_value = 1;
  EXPECT_TRUE(contains(message_of([&] { validate(both); }), "grad_clip_value"));
  Config resume = config;
  resume.train.resume = true;
  EXPECT_TRUE(contains(message_of([&] { validate(resume); }), "checkpoint.dir"));
  Config negative = config;
  negative.train.scheduler.base_lr = -0.1;
  EXPECT_TRUE(contains(message_of([&] { validate(negative); }), "base_lr"));
  Config infinite = config;  // as fp32, in which steps compute
  infinite.train.scheduler.base_lr = 1e39;
  EXPECT_TRUE(contains(message_of([&] { validate(infinite); }), "base_lr"));
  Config vanishing = config;
  vanishing.train.optimizer.kind = Optimizer::Kind::ADAMW;
  vanishing.train.optimizer.eps = 1e-50;
  EXPECT_TRUE(contains(message_of([&] { validate(vanishing); }), "eps"));
  EXPECT_TRUE(contains(message_of([&] { Config(config).global.accumulate_steps(2147483647); }),
                       "accumulate_steps"));
  Config crowded = config;
  crowded.preprocessor.load_workers(200).preprocess_workers(57);
  EXPECT_TRUE(contains(message_of([&] { validate(crowded); }), "preprocess_workers is 57"));
  Config nesterov = config;
  nesterov.train.optimizer.nesterov = true;
  EXPECT_TRUE(contains(message_of([&] { validate(nesterov); }), "momentum"));
}

// What nobody set is the kind's own; what was set stays, in any order.
TEST(Settings, AFileHasOneUse) {
  const test::TempFolder folder;
  const auto message = [&](const std::vector<std::array<std::string, 2>>& pairs) {
    Config config;
    for (const auto& [key, value] : pairs) set_config(config, key, value);
    return message_of([&] { check_places(config.train); });
  };
  const std::string place = folder.path("x"), other = folder.path("./no/../x");
  EXPECT_TRUE(contains(message({{"log_file", place}, {"trace_file", other}}),
                       "log_file and trace_file are both"));
  EXPECT_TRUE(contains(message({{"checkpoint.best", place}, {"log_file", place}}),
                       "checkpoint.best and log_file are both"));
  EXPECT_EQ(message({{"checkpoint.best", "/dev/null"}, {"log_file", "/dev/null"}}),
            "nothing was thrown");
  for (const char* name : {"best.safetensors", "checkpoint-0000000013.safetensors"}) {
    EXPECT_TRUE(contains(
        message({{"checkpoint.dir", folder.path()}, {"checkpoint.best", folder.path(name)}}),
        "which is the name of a checkpoint in checkpoint.dir"))
        << name;
    EXPECT_EQ(
        message({{"checkpoint.dir", folder.path("a")}, {"checkpoint.best", folder.path(name)}}),
        "nothing was thrown");
  }
  EXPECT_TRUE(contains(message({{"checkpoint.dir", "."}, {"checkpoint.best", "best.safetensors"}}),
                       "which is the name of a checkpoint"));
}

TEST(Settings, DefaultsFollowTheOptimizer) {
  const auto value = [](const Config& config, std::string_view name) -> nlohmann::json {
    for (const ConfigKey& key : config_keys()) {
      if (key.name == name) return key.get(config);
    }
    return nullptr;
  };
  Config config;
  set_config(config, "optimizer", "lion");
  EXPECT_EQ(value(config, "beta2"), 0.99);
  set_config(config, "optimizer", "lamb");
  EXPECT_EQ(value(config, "beta2"), 0.999);
  EXPECT_EQ(value(config, "eps"), 1e-6);
  set_config(config, "beta2", "0.999");
  set_config(config, "optimizer", "lion");
  EXPECT_EQ(value(config, "beta2"), 0.999);
}

TEST(Settings, OptionsWithoutEffectAreListed) {
  Config config;
  config.global.use_cpu().use_tf32(true);
  config.train.optimizer.kind = Optimizer::Kind::ADAMW;
  config.train.optimizer.momentum = 0.9;
  config.train.optimizer.nesterov = true;
  const auto notes = ineffective_options(config, DeviceKind::CPU);
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_TRUE(contains(notes[2], "nesterov"));
  EXPECT_TRUE(contains(notes[0], "use_tf32"));
  EXPECT_TRUE(contains(notes[1], "momentum"));
  Config tuned;
  tuned.global.search_seconds(3).tuning_cache("off");
  const auto tuning = ineffective_options(tuned, DeviceKind::CPU);
  ASSERT_EQ(tuning.size(), 2u);
  EXPECT_TRUE(contains(tuning[0], "search_seconds"));
  EXPECT_TRUE(contains(tuning[1], "tuning_cache"));
  EXPECT_TRUE(ineffective_options(tuned, DeviceKind::CUDA).empty());
  EXPECT_TRUE(contains(message_of([&] { tuned.global.search_seconds(-1); }), "search_seconds"));
  Config columns;
  for (const Metric metric : {Metric::EMA_TOP1, Metric::EMA_TOP5, Metric::TRAIN_TOP5}) {
    columns.train.metrics = Metric::TRAIN_LOSS | metric;
    EXPECT_EQ(ineffective_options(columns, DeviceKind::CPU).size(), 1u) << int(metric);
  }
  EXPECT_TRUE(ineffective_options(Config{}, DeviceKind::CPU).empty());
}

TEST(Settings, TheTextOfAnObjectiveTellsItsOptimizerAndSchedulerApart) {
  const auto text = [](const Optimizer& optimizer, const std::optional<Scheduler>& scheduler) {
    Config config;
    config.train.objectives = {{"body.", CrossEntropyLoss(), optimizer, scheduler}};
    return to_json(config).at("objectives").dump();
  };
  std::set<std::string> texts;
  Optimizer rmsprop = RMSprop();
  texts.insert(text(rmsprop, std::nullopt));
  rmsprop.alpha = 0.9;
  texts.insert(text(rmsprop, std::nullopt));
  rmsprop.centered = true;
  texts.insert(text(rmsprop, std::nullopt));
  Scheduler step = StepLR();
  texts.insert(text(rmsprop, step));
  step.gamma = 0.5;
  texts.insert(text(rmsprop, step));
  step.warmup_epochs = 2;
  texts.insert(text(rmsprop, step));
  EXPECT_EQ(texts.size(), 6u);
}

// In whatever order they are said, keys and a program mean the same.
TEST(Settings, TheCosineOfKeysIsThatOfAProgram) {
  TrainOptions options;
  options.scheduler = CosineAnnealingLR().base_lr(0.01);
  const Config program{GlobalSetting{}, PreprocessorSetting{}, options};
  Config keys;
  set_config(keys, "base_lr", "0.01");
  set_config(keys, "scheduler", "cosine");
  EXPECT_EQ(to_json(keys).dump(1), to_json(program).dump(1));
  EXPECT_EQ(to_json(keys).at("eta_min"), 1e-6);
  set_config(keys, "scheduler", "cosine_warm_restarts");
  EXPECT_EQ(to_json(keys).at("eta_min"), 0.0);
  set_config(keys, "eta_min", "0.001");
  set_config(keys, "scheduler", "cosine");
  EXPECT_EQ(to_json(keys).at("eta_min"), 0.001);
}

// Each key that something else must be chosen for: a note without it, none with it.
TEST(Settings, KeysThatNothingReadsAreListed) {
  const struct {
    const char *key, *value, *reader;  // reader: assignments with which it is read
  } cases[] = {{"gamma", "0.5", "scheduler=step"},
               {"gamma", "0.5", "scheduler=multi_step"},
               {"gamma", "0.5", "scheduler=exponential"},
               {"step_size", "3", "scheduler=step"},
               {"milestones", "3,5", "scheduler=multi_step"},
               {"eta_min", "0.01", "scheduler=cosine"},
               {"eta_min", "0.01", "scheduler=cosine_warm_restarts"},
               {"t_0", "3", "scheduler=cosine_warm_restarts"},
               {"t_mult", "2", "scheduler=cosine_warm_restarts"},
               {"power", "3", "scheduler=polynomial"},
               {"end_lr", "0.01", "scheduler=polynomial"},
               {"end_lr", "0.01", "scheduler=wsd"},
               {"decay_start", "0.5", "scheduler=wsd"},
               {"step_by", "batch", "scheduler=cosine"},
               {"step_by", "batch", "warmup=2"},
               {"warmup_start_lr", "0.01", "warmup=2"},
               {"loss_scale", "128", "amp=fp16"},
               {"loss_scale_growth", "100", "amp=fp16"},
               {"beta1", "0.8", "optimizer=adam"},
               {"beta2", "0.9", "optimizer=adamw"},
               {"eps", "1e-6", "optimizer=adamw"},
               {"eps", "1e-5", "optimizer=lars"},
               {"beta2", "0.9", "optimizer=lion"},
               {"alpha", "0.9", "optimizer=rmsprop"},
               {"match_rms", "true", "optimizer=muon"},
               {"adam_rate", "0.1", "optimizer=muon"},
               {"not_matrices", "head.", "optimizer=muon"},
               {"not_matrices", "head.", "optimizer=soap"},
               {"adam_rate", "0.1", "optimizer=shampoo"},
               {"block_size", "64", "optimizer=shampoo"},
               {"grafting", "sgd", "optimizer=shampoo"},
               {"precondition_every", "5", "optimizer=shampoo"},
               {"preconditioner_beta", "0.9", "optimizer=shampoo"},
               {"ridge", "1e-4", "optimizer=soap"},
               {"max_preconditioner_dim", "64", "optimizer=soap"},
               {"centered", "true", "optimizer=rmsprop"},
               {"lr_decay", "0.1", "optimizer=adagrad"},
               {"initial_accumulator", "0.1", "optimizer=adagrad"},
               {"trust_coefficient", "0.02", "optimizer=lars"},
               {"rate_in_momentum", "true", "optimizer=lars"},
               {"trust_clip", "true", "optimizer=lamb"},
               {"always_adapt", "true", "optimizer=lamb"},
               {"checkpoint.every", "2", "checkpoint.dir=/x"},
               {"checkpoint.keep", "3", "checkpoint.dir=/x"},
               {"early_stop.min_delta", "0.1", "early_stop.metric=val_loss"},
               {"early_stop.mode", "max", "early_stop.metric=val_loss"},
               {"early_stop.patience", "3", "early_stop.metric=val_loss"},
               {"early_stop.restore_best", "true", "early_stop.metric=val_loss"},
               {"decode.exif", "ignore", "dataset.name=folder"},
               {"decode.crop_only", "false", "dataset.name=imagenet"},
               {"decode.dct_scaling", "false", "dataset.name=csv"},
               {"decode.fast_dct", "true", "dataset.name=folder"},
               {"decode.remember_rows", "false", "dataset.name=folder"},
               {"load_weights_strict", "false", "load_weights=/x"}};
  for (const auto& [key, value, reader] : cases) {
    SCOPED_TRACE(std::string(key) + " and " + reader);
    Config config;
    config.preprocessor.dataset("mnist");
    set_config(config, key, value);
    const auto notes = ineffective_options(config, DeviceKind::CPU);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_TRUE(contains(notes[0], key)) << notes[0];
    apply_assignments(config, parse_assignments(reader, "test"));
    EXPECT_TRUE(ineffective_options(config, DeviceKind::CPU).empty());
  }
  Config bf16;
  bf16.global.amp(DType::BF16);
  set_config(bf16, "loss_scale", "128");
  EXPECT_EQ(ineffective_options(bf16, DeviceKind::CPU).size(), 1u) << "nothing is scaled";
}

}  // namespace
}  // namespace tr
