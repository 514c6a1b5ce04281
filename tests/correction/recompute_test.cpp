// SPDX-License-Identifier: Apache-2.0
// memory_budget and accumulate_steps=auto change what a step keeps, not what it computes. One
// program for each device: TR_TEST_DEVICE is its DeviceKind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "renaissance.h"
#include "renaissance/zoo/zoo.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/log_capture.h"
#include "support/shared_values.h"

namespace tr::test {
namespace {

constexpr DeviceKind kHere = DeviceKind::TR_TEST_DEVICE;

class Recomputed : public DeviceTest<kHere> {};
class Accumulated : public DeviceTest<kHere> {};

/// Pictures of 32 x 32 with labels, made from the name.
std::shared_ptr<const Dataset> pictures(const std::string& name, std::int64_t n) {
  return make_tensor_dataset({{"image", shared_units(name, {n, 32, 32, 3})},
                              {"label", shared_labels(name + ".label", n, 10)}},
                             10);
}

struct Setting {
  std::string amp = "off";
  int accumulate = 1;
  std::int64_t budget = 0;
};

struct Outcome {
  std::string weights;
  std::vector<double> losses;
  std::int64_t arena = 0;
};

void quiet() {
  set_log_sink([](LogLevel, std::string_view) {});
  set_progress_sink({});
}

DeepLearningTask task_of(const BluePrint& model, const std::string& amp) {
  Session session;
  session.global.manual_seed(3).threads(1).global_batch_size(16);
  DeepLearningTask task;
  task.session(session)
      .dataset({pictures("train", 40), pictures("val", 16)})
      .model(model)
      .loss(CrossEntropyLoss())
      .optimizer(SGD().momentum(0.9))
      .scheduler(ConstantLR().base_lr(0.01))
      .set("device", kHere == DeviceKind::CPU ? "cpu" : "cuda")
      .set("amp", amp)
      .total_epochs(2);
  return task;
}

Outcome train(const BluePrint& model, const Setting& setting) {
  quiet();
  DeepLearningTask task = task_of(model, setting.amp);
  task.set("accumulate_steps", std::to_string(setting.accumulate));
  if (setting.budget > 0) task.memory_budget(setting.budget);
  task.compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  Outcome outcome{result.weights_sha256, {}, task.memory().arena_bytes};
  for (const EpochRecord& e : result.history) {
    outcome.losses.push_back(e.train_loss);
    outcome.losses.push_back(e.val_loss);
  }
  return outcome;
}

/// A residual network with dropout whose activations outweigh its weights.
BluePrint network() {
  return seq(cbr(16, 3, 1, 1), block(16, RESNET_3_3), dropout(0.1f), block(32, RESNET_3_3_DS),
             cbrp(32, 3, 1, 1, 3, 2, 1), conv(32, 3, 1, 1), silu(), gap_fc(10, true));
}

// The workspaces of a GPU's library stay, whatever is made again.
constexpr double kStays = kHere == DeviceKind::CUDA ? 0.06 : 0;

TEST_F(Recomputed, TrainingHasTheSameBytes) {
  for (const Setting& setting : {Setting{}, Setting{"bf16"}, Setting{"fp16"}, Setting{"off", 2}}) {
    SCOPED_TRACE(setting.amp + " " + std::to_string(setting.accumulate));
    const Outcome plain = train(network(), setting);
    for (const double part : {0.9, 0.8}) {
      SCOPED_TRACE(part);
      Setting tight = setting;
      tight.budget = std::int64_t((part + kStays) * double(plain.arena));
      const Outcome again = train(network(), tight);
      EXPECT_LE(again.arena, tight.budget);
      EXPECT_EQ(again.weights, plain.weights);
      EXPECT_EQ(again.losses, plain.losses);
    }
  }
}

TEST_F(Recomputed, ZooModelsHaveTheSameBytes) {
  for (const std::string name : {"cifar_resnet20", "cifar_vgg11_bn"}) {
    SCOPED_TRACE(name);
    const BluePrint model = zoo::make_model(name).blueprint;
    const Outcome plain = train(model, {});
    // Nine tenths of VGG's arena at this batch are weights, gradients and momenta.
    const double part = name == "cifar_resnet20" ? 0.5 + 2 * kStays : 0.96;
    const std::int64_t budget = std::int64_t(part * double(plain.arena));
    const Outcome again = train(model, {.budget = budget});
    EXPECT_LE(again.arena, budget);
    EXPECT_EQ(again.weights, plain.weights);
    EXPECT_EQ(again.losses, plain.losses);
  }
}

TEST_F(Recomputed, WhatCannotBeReachedIsRefused) {
  quiet();
  DeepLearningTask task = task_of(network(), "off");
  task.memory_budget(1000);
  EXPECT_TRUE(refuses([&] { task.compile(CompileInfo::NONE); },
                      {"memory_budget is 1000 B (1000 bytes)", "was found to reach is"}));
}

// The largest batch that a refusal names is run; eight more are refused.
TEST_F(Recomputed, TheLargestBatchIsRightWithinEight) {
  quiet();
  const auto task_with = [](std::int64_t batch, std::int64_t limit) {
    Session session;
    session.global.manual_seed(3).threads(2).global_batch_size(batch);
    DeepLearningTask task;
    task.session(session)
        .dataset({pictures("train", 512), nullptr})
        .model(zoo::make_model("cifar_resnet20").blueprint)
        .loss(CrossEntropyLoss())
        .optimizer(SGD().momentum(0.9))
        .set("device", kHere == DeviceKind::CPU ? "cpu" : "cuda")
        .set("memory_limit", std::to_string(limit))
        .set("data_place", "host")
        .set("drop_last", "true")
        .total_epochs(1);
    return task;
  };
  DeepLearningTask probe = task_with(40, 0);
  probe.compile(CompileInfo::NONE);
  const std::int64_t limit = probe.memory().total_bytes;
  std::string message;
  try {
    task_with(512, limit).compile(CompileInfo::NONE);
  } catch (const OutOfMemory& error) {
    message = error.what();
  }
  const std::string words = "local_batch_size ";
  ASSERT_NE(message.find(words), std::string::npos) << message;
  const std::int64_t largest = std::stoll(message.substr(message.find(words) + words.size()));
  EXPECT_GE(largest, 40);
  DeepLearningTask fits = task_with(largest, limit);
  fits.compile(CompileInfo::NONE);
  EXPECT_LE(fits.memory().total_bytes, limit);
  EXPECT_TRUE(std::isfinite(fits.run().history.front().train_loss));
  EXPECT_THROW(task_with(largest + 8, limit).compile(CompileInfo::NONE), OutOfMemory);
}

/// Without batch norm, whose statistics are those of a micro-batch.
BluePrint plain_network() {
  return seq(conv(16, 3, 1, 1), relu(), maxpool(2), conv(32, 3, 1, 1), relu(), gap_fc(10, true));
}

TEST_F(Accumulated, AutoTakesTheFewestPartsAndTrainsTheLargeBatch) {
  quiet();
  const LogCapture log;
  const auto run = [&](std::int64_t limit) {
    DeepLearningTask task = task_of(plain_network(), "off");
    task.set("accumulate_steps", "auto").set("memory_limit", std::to_string(limit));
    task.compile(CompileInfo::NONE);
    const TrainingResult result = task.run();
    Outcome outcome{result.weights_sha256, {}, task.memory().arena_bytes};
    for (const EpochRecord& e : result.history) outcome.losses.push_back(e.train_loss);
    return std::pair(outcome, task.config_json());
  };
  const auto [whole, whole_config] = run(std::int64_t{1} << 30);
  EXPECT_NE(whole_config.find("\"accumulate_steps\":1,"), std::string::npos) << whole_config;
  EXPECT_EQ(log.count("auto takes 1, the local batch of 16 fits"), 1) << log.text();

  const std::int64_t limit = whole.arena * 2 / 5;
  const auto [parts, config] = run(limit);
  EXPECT_LE(parts.arena, limit);
  EXPECT_NE(config.find("\"accumulate_steps\":4,"), std::string::npos) << config;
  EXPECT_NE(config.find("\"local_batch_size\":4,"), std::string::npos) << config;
  EXPECT_EQ(log.count("auto takes 4, micro-batches of 4 of the local batch of 16"), 1)
      << log.text();
  ASSERT_EQ(parts.losses.size(), whole.losses.size());
  for (std::size_t e = 0; e < whole.losses.size(); ++e)
    EXPECT_NEAR(parts.losses[e], whole.losses[e], 2e-6 * whole.losses[e]) << "order of sums alone";

  // Fewer parts do not fit.
  DeepLearningTask two = task_of(plain_network(), "off");
  two.set("accumulate_steps", "2").set("memory_limit", std::to_string(limit));
  EXPECT_TRUE(
      refuses([&] { two.compile(CompileInfo::NONE); },
              {"accumulate_steps 4 with micro-batches of 4 would", "the same global batch of 16"}));
}

TEST_F(Accumulated, ARunThatDoesNotFitNamesTheNumberOfParts) {
  quiet();
  DeepLearningTask large = task_of(plain_network(), "off");
  large.set("memory_limit", "600000");
  EXPECT_TRUE(
      refuses([&] { large.compile(CompileInfo::NONE); },
              {"local_batch_size ", " would fit, this is 16", "accumulate_steps=auto takes it"}));
  DeepLearningTask none = task_of(plain_network(), "off");
  none.set("memory_limit", "1000").set("accumulate_steps", "auto");
  EXPECT_TRUE(refuses([&] { none.compile(CompileInfo::NONE); },
                      {"not even a batch of one sample would fit"}));
}

}  // namespace
}  // namespace tr::test
