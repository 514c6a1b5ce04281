// SPDX-License-Identifier: Apache-2.0
// What steers a run from epoch to epoch: parts that stand still, early stop, rates that follow a
// metric or the user, and that a resumed run has it all. One program for each device.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/compare.h"
#include "support/device.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "task/freeze_plan.h"
#include "task/metrics_log.h"
#include "toy.h"

namespace tr::test {
namespace {

constexpr DeviceKind kDevice = DeviceKind::TR_TEST_DEVICE;

class Control : public DeviceTest<kDevice> {
 protected:
  const toy::Quiet quiet_;
};

Session device_session(int workers = 1) {
  Session session = toy::make_session(20, workers);
  if (kDevice == DeviceKind::CUDA) session.global.use_gpu("0");
  return session;
}

/// No shuffle and no dropout: every epoch is the same but for its weights.
DeepLearningTask plain_task(int epochs) {
  Session session = device_session();
  session.preprocessor.shuffle_train(false);
  DeepLearningTask task;
  task.model(seq(fc(16, true), tanh(), fc(4, true)))
      .loss(CrossEntropyLoss())
      .optimizer(SGD().weight_decay(0.01))
      .scheduler(ConstantLR().base_lr(0.1))
      .grad_clip(0.05f)
      .total_epochs(epochs)
      .session(session)
      .dataset(toy::make_data());
  return task;
}

/// Weights after each epoch, and the run's result.
struct Story {
  std::vector<Tensor> first, second;  // "0.weight", "2.weight"
  TrainingResult result;
};

Story story_of(DeepLearningTask& task) {
  Story story;
  task.callbacks({.on_step = {}, .on_epoch = [&](DeepLearningTask& t, const EpochRecord&) {
                    story.first.push_back(t.fetch("0.weight"));
                    story.second.push_back(t.fetch("2.weight"));
                  }});
  task.compile(CompileInfo::NONE);
  story.result = task.run();
  return story;
}

bool equal(const Tensor& a, const Tensor& b) { return bool(same_bytes(a, b, "weight")); }

TEST_F(Control, PartsStandStillInTheirEpochsAlone) {
  DeepLearningTask task = plain_task(4);
  task.freeze("0.", 2, 3);
  const Story story = story_of(task);
  EXPECT_TRUE(equal(story.first[1], story.first[0])) << "epoch 2";
  EXPECT_TRUE(equal(story.first[2], story.first[0])) << "epoch 3";
  EXPECT_FALSE(equal(story.first[3], story.first[2])) << "it moves again";
  for (int epoch : {1, 2, 3})
    EXPECT_FALSE(equal(story.second[std::size_t(epoch)], story.second[std::size_t(epoch) - 1]));
}

/// Cross entropy as a user would write it; of each sample, or of the batch.
Loss own_cross_entropy(bool of_batch) {
  const Value logp = log_softmax()(model_output());
  const Value each = neg()(sum({1})(gather(logp, reshape({1})(input("label")), 1)));
  return OwnLoss("mine", of_batch ? mean({})(each) : each).class_scores();
}

// 210 samples in batches of 20: the last one is smaller.
TEST_F(Control, AnOwnCrossEntropyTrainsAsTheBuiltInOne) {
  DeepLearningTask task = plain_task(3);
  const Story want = story_of(task);
  for (const bool of_batch : {false, true}) {
    DeepLearningTask own = plain_task(3);
    own.loss(own_cross_entropy(of_batch));
    const Story got = story_of(own);
    for (std::size_t e = 0; e < 3; ++e) {
      EXPECT_TRUE(is_close(got.first[e], want.first[e], run_tolerance(33, false)));
      const EpochRecord &a = got.result.history[e], &b = want.result.history[e];
      EXPECT_NEAR(a.train_loss, b.train_loss, 1e-5);
      EXPECT_NEAR(a.val_loss, b.val_loss, 1e-5);
      EXPECT_EQ(a.top1, b.top1);
    }
  }
}

TEST_F(Control, AnOwnLossTrainsInLowPrecisionAndUnderAccumulation) {
  for (const char* amp : {"off", "bf16"}) {
    for (const char* parts : {"1", "2"}) {
      DeepLearningTask task = plain_task(6);
      task.loss(0.5 * own_cross_entropy(false) + 0.5 * Loss(CrossEntropyLoss()))
          .set("amp", amp)
          .set("accumulate_steps", parts);
      const Story story = story_of(task);
      EXPECT_LT(story.result.history.back().val_loss, 0.9 * story.result.history.front().val_loss)
          << amp << ", " << parts;
    }
  }
}

TEST_F(Control, AResumedRunMustHaveTheSameOwnLoss) {
  const TempFolder folder;
  const auto run = [&](bool of_batch) {
    DeepLearningTask task = plain_task(2);
    task.loss(own_cross_entropy(of_batch)).save_every(folder.path(), 1, 2).resume();
    task.compile(CompileInfo::NONE);
    return task.run();
  };
  const TrainingResult first = run(false);
  EXPECT_EQ(run(false).weights_sha256, first.weights_sha256) << "nothing is left to train";
  EXPECT_TRUE(throws<InvalidArgument>([&] { run(true); }, "loss was"));
}

// The norm that clips is of what moves alone, whatever an earlier epoch left of the other
// gradients.
TEST_F(Control, AnEpochOfFrozenPartsIsThatOfARunWithThemFrozen) {
  const TempFolder folder;
  DeepLearningTask whole = plain_task(2);
  whole.freeze("0.", 2, 2);
  std::vector<Tensor> after;
  whole.callbacks({.on_step = {}, .on_epoch = [&](DeepLearningTask& t, const EpochRecord& record) {
                     if (record.epoch == 1) t.save_weights(folder.path("one.safetensors"));
                     after.push_back(t.fetch("2.weight"));
                   }});
  whole.compile(CompileInfo::NONE);
  whole.run();
  DeepLearningTask second = plain_task(1);
  second.freeze("0.").load_weights(folder.path("one.safetensors"));
  EXPECT_TRUE(same_bytes(story_of(second).second[0], after[1], "2.weight"));
  DeepLearningTask moving = plain_task(1);
  moving.load_weights(folder.path("one.safetensors"));
  EXPECT_FALSE(equal(story_of(moving).second[0], after[1])) << "the norm is another";
}

TEST_F(Control, FreezeRulesAreReadAndRefusedInWords) {
  EXPECT_EQ(parse_freeze("body."), (Freeze{"body.", 1, 0}));
  EXPECT_EQ(parse_freeze("body.@2-5"), (Freeze{"body.", 2, 5}));
  EXPECT_EQ(parse_freeze("body.@3-"), (Freeze{"body.", 3, 0}));
  EXPECT_EQ(parse_freeze("body.@3"), (Freeze{"body.", 3, 3}));
  EXPECT_EQ(parse_freeze("body. @ 2 - 5 "), (Freeze{"body.", 2, 5}));
  for (const char* text : {"body.", "body.@2-5", "body.@3-"})
    EXPECT_EQ(to_string(parse_freeze(text)), text);
  for (const char* text : {"body.@", "body.@x", "body.@0-2", "body.@5-2", "body.@-3"})
    EXPECT_TRUE(throws<InvalidArgument>([&] { parse_freeze(text); }, text));
  EXPECT_TRUE(throws<InvalidArgument>([] { plain_task(1).freeze("0.", 0); }, "is 0, expected"));
  EXPECT_TRUE(throws<InvalidArgument>([] { plain_task(1).freeze("0.", 3, 2); }, "is 2, expected"));
  const FreezePlan plan = plan_freezes(std::vector<Freeze>{{"a.", 1, 2}, {"b.", 2, 0}}, 4);
  EXPECT_EQ(plan.of_epoch, (std::vector<int>{0, 1, 2, 2}));
}

TEST_F(Control, ARunEndsWhenItsMetricGetsNoBetter) {
  DeepLearningTask task = plain_task(30);
  task.early_stop({.metric = "val_loss", .patience = 3, .min_delta = 100});
  const Story story = story_of(task);
  EXPECT_EQ(story.result.history.size(), 4u) << "the first epoch is the best, three more wait";
  EXPECT_FALSE(story.result.cancelled);
  DeepLearningTask patient = plain_task(6);
  patient.early_stop({.metric = "train_loss", .patience = 3});
  EXPECT_EQ(story_of(patient).result.history.size(), 6u) << "the loss falls all the time";
  DeepLearningTask rising = plain_task(6);
  rising.early_stop({.metric = "train_loss", .mode = Plateau::Mode::MAX, .patience = 2});
  EXPECT_EQ(story_of(rising).result.history.size(), 3u) << "a falling loss is no better now";
}

/// Cross entropy times `scale`, shifted: a loss of any sign.
Loss shifted(float scale, float shift) {
  const Value logp = log_softmax()(model_output());
  const Value nll = neg()(sum({1})(gather(logp, reshape({1})(input("label")), 1)));
  return OwnLoss("shifted", affine(scale, shift)(nll));
}

TEST_F(Control, ANegativeValidationLossIsOne) {
  const TempFolder folder;
  const auto made = [&](float scale, float shift, int epochs) {
    DeepLearningTask task = plain_task(epochs);
    task.loss(shifted(scale, shift)).save_every(folder.path());
    return task;
  };
  DeepLearningTask falling = made(1, -10, 4);
  const TrainingResult result = falling.compile(CompileInfo::NONE).run();
  double least = 0;
  int best = -1;
  for (const EpochRecord& record : result.history) {
    EXPECT_TRUE(record.validated);
    EXPECT_LT(record.val_loss, -5);
    const auto json = nlohmann::json::parse(epoch_json(record));
    EXPECT_EQ(json.at("val_loss").get<double>(), record.val_loss);
    if (record.val_loss < least) least = record.val_loss, best = record.epoch;
  }
  EXPECT_EQ(result.best_epoch, best) << "an epoch is the best by its loss, whatever its sign";

  DeepLearningTask rest = made(1, -10, 5);
  const TrainingResult resumed = rest.resume().compile(CompileInfo::NONE).run();
  ASSERT_EQ(resumed.history.size(), 5u);
  EXPECT_EQ(resumed.history[3].val_loss, result.history[3].val_loss);
  EXPECT_TRUE(resumed.history[3].validated);

  // What once stood for "not measured" is a loss like any other.
  const TempFolder other;
  DeepLearningTask still = plain_task(9);
  still.loss(shifted(0, -1)).early_stop({.metric = "val_loss", .patience = 2});
  const TrainingResult ended = still.compile(CompileInfo::NONE).run();
  EXPECT_EQ(ended.history.size(), 3u);
  EXPECT_EQ(ended.history.back().val_loss, -1);
  EXPECT_EQ(ended.best_epoch, 1);
}

TEST_F(Control, AnEpochWithoutAValidationHasNoValidationLoss) {
  EpochRecord record;
  record.val_loss = 3;
  EXPECT_EQ(epoch_metric(record, "val_loss"), std::nullopt);
  EXPECT_TRUE(nlohmann::json::parse(epoch_json(record)).at("val_loss").is_null());
  record.validated = true;
  EXPECT_EQ(epoch_metric(record, "val_loss"), 3);
}

TEST_F(Control, TheBestWeightsComeBack) {
  for (const bool restore : {true, false}) {
    DeepLearningTask task = plain_task(30);
    task.early_stop(
        {.metric = "val_loss", .patience = 2, .min_delta = 100, .restore_best = restore});
    const Story story = story_of(task);
    ASSERT_EQ(story.result.history.size(), 3u);
    EXPECT_EQ(equal(task.fetch("0.weight"), story.first[0]), restore);
    EXPECT_EQ(equal(task.fetch("2.weight"), story.second[0]), restore);
  }
}

TEST_F(Control, WhatCannotBeWatchedIsRefused) {
  EXPECT_TRUE(throws<InvalidArgument>([] { plain_task(1).early_stop({.metric = "val_los"}); },
                                      "\"val_loss\""));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { plain_task(1).early_stop({.metric = "top1", .patience = 0}); }, "patience is 0"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        DeepLearningTask task = plain_task(1);
        task.dataset({toy::make_set(40, 1), nullptr}).early_stop({.metric = "val_loss"});
        task.compile(CompileInfo::NONE);
      },
      "early_stop: it watches val_loss, but the data have no validation set"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        DeepLearningTask task = plain_task(1);
        task.scheduler(ReduceLROnPlateau().metric("top_1")).compile(CompileInfo::NONE);
      },
      "metric"));
}

std::vector<double> rates_of(const TrainingResult& result) {
  std::vector<double> rates;
  for (const EpochRecord& record : result.history) rates.push_back(record.lr);
  return rates;
}

void expect_rates(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

TEST_F(Control, TheRateFallsOnAPlateau) {
  DeepLearningTask task = plain_task(7);
  // No improvement is large enough: a fall after each second epoch, the first one of warm-up apart.
  task.scheduler(ReduceLROnPlateau()
                     .base_lr(0.1)
                     .warmup(1)
                     .patience(1)
                     .factor(0.5)
                     .threshold(100, false)
                     .min_lr(0.03));
  expect_rates(rates_of(story_of(task).result), {0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.03});
}

TEST_F(Control, CallbacksChangeTheRate) {
  DeepLearningTask task = plain_task(4);
  task.callbacks({.on_step = {}, .on_epoch = [](DeepLearningTask& t, const EpochRecord& record) {
                    if (record.epoch == 2) t.scale_lr(0.1);
                  }});
  task.compile(CompileInfo::NONE);
  expect_rates(rates_of(task.run()), {0.1, 0.1, 0.01, 0.01});
  DeepLearningTask stepped = plain_task(1);
  std::vector<double> rates;
  std::vector<Tensor> weights;
  stepped.callbacks({.on_step =
                         [&](DeepLearningTask& t, std::int64_t step, double, double lr) {
                           rates.push_back(lr);
                           weights.push_back(t.fetch("0.weight"));
                           if (step == 3) t.scale_lr(0);
                         },
                     .on_epoch = {}});
  stepped.compile(CompileInfo::NONE);
  stepped.run();
  EXPECT_EQ(rates[2], 0.1);
  EXPECT_EQ(rates[3], 0);
  EXPECT_FALSE(equal(weights[2], weights[1]));
  EXPECT_TRUE(equal(weights[3], weights[2])) << "at rate 0 nothing moves";
  EXPECT_TRUE(throws<InvalidArgument>([&] { stepped.scale_lr(-1); }, "the factor is -1"));
}

TEST_F(Control, FunctionsAndCyclesSetTheRateOfEveryStep) {
  DeepLearningTask task = plain_task(2);
  task.scheduler(OneCycleLR().base_lr(0.2));
  std::vector<double> rates;
  task.callbacks(
      {.on_step = [&](DeepLearningTask&, std::int64_t, double, double lr) { rates.push_back(lr); },
       .on_epoch = {}});
  EXPECT_EQ(task.learning_rates(11).size(), 22u);
  EXPECT_TRUE(throws<InvalidArgument>([&] { task.learning_rates(0); }, "steps_per_epoch is 0"));
  task.compile(CompileInfo::NONE);
  task.run();
  EXPECT_EQ(rates, task.learning_rates(11));
  DeepLearningTask lambda = plain_task(3);
  lambda.scheduler(
      LambdaLR([](std::int64_t epoch) { return epoch == 1 ? 0.5 : 1.0; }).base_lr(0.2));
  expect_rates(rates_of(story_of(lambda).result), {0.2, 0.1, 0.2});
}

DeepLearningTask steered(const std::string& folder, int workers) {
  DeepLearningTask task = toy::make_task(device_session(workers), toy::make_data(), 6);
  task.freeze("0.", 2, 3)
      .freeze("3.", 5, 5)
      .grad_clip(0.5f)
      .scheduler(ReduceLROnPlateau().base_lr(0.01).patience(0).factor(0.7).threshold(0.2))
      .early_stop({.metric = "val_loss", .patience = 4, .min_delta = 0.1, .restore_best = true})
      .save_every(folder, 1, 2)
      .resume();
  return task;
}

TEST_F(Control, AResumedRunIsTheUnbrokenOne) {
  const TempFolder whole;
  DeepLearningTask task = steered(whole.path(), 1);
  const auto scale_once = [](DeepLearningTask& t, std::int64_t step) {
    if (step == 18) t.scale_lr(0.9);
  };
  task.callbacks({.on_step = [&](DeepLearningTask& t, std::int64_t step, double,
                                 double) { scale_once(t, step); },
                  .on_epoch = {}});
  task.compile(CompileInfo::NONE);
  const TrainingResult want = task.run();
  EXPECT_LT(want.history.back().lr, 0.01 * 0.9 * 0.7 * 1.01);
  for (const std::int64_t stop_at : {5, 18, 19, 33, 40, 58}) {
    SCOPED_TRACE("stopped after step " + std::to_string(stop_at));
    const TempFolder folder;
    for (const int part : {0, 1}) {
      DeepLearningTask broken = steered(folder.path(), 1 + part);
      broken.callbacks({.on_step =
                            [&](DeepLearningTask& t, std::int64_t step, double, double) {
                              scale_once(t, step);
                              if (part == 0 && step == stop_at) t.cancel();
                            },
                        .on_epoch = {}});
      broken.compile(CompileInfo::NONE);
      const TrainingResult got = broken.run();
      if (part == 0) continue;
      EXPECT_EQ(got.weights_sha256, want.weights_sha256);
      EXPECT_EQ(rates_of(got), rates_of(want));
    }
  }
}

TEST_F(Control, AStoppedRunStaysStopped) {
  const TempFolder folder;
  const auto run = [&](int epochs) {
    DeepLearningTask task = plain_task(epochs);
    task.early_stop({.metric = "val_loss", .patience = 2, .min_delta = 100, .restore_best = true})
        .save_every(folder.path())
        .resume()
        .compile(CompileInfo::NONE);
    return task.run();
  };
  const TrainingResult first = run(10), again = run(20);
  EXPECT_EQ(first.history.size(), 3u);
  EXPECT_EQ(again.history.size(), 3u);
  EXPECT_EQ(again.weights_sha256, first.weights_sha256);
}

TEST_F(Control, ObjectivesRefuseInWords) {
  const Objective one{"0.", CrossEntropyLoss(), SGD(), {}}, two{"0.weight", one.loss, SGD(), {}};
  const auto refused = [](const std::vector<Objective>& objectives, const char* words) {
    return throws<InvalidArgument>(
        [&] { plain_task(1).objectives(objectives).compile(CompileInfo::NONE); }, words);
  };
  EXPECT_TRUE(refused({one, two}, "\"0.\" and \"0.weight\" train the same parameters"));
  EXPECT_TRUE(
      refused({one, {"7.", one.loss, SGD(), {}}}, "no parameter's name starts with \"7.\""));
  EXPECT_TRUE(refused({{"", one.loss, SGD(), {}}}, "trains is empty"));
  EXPECT_TRUE(throws<Unsupported>(
      [&] {
        DeepLearningTask task = plain_task(1);
        task.set("accumulate_steps", "2").objectives({one}).compile(CompileInfo::NONE);
      },
      "accumulate_steps above 1"));
}

TEST_F(Control, ValidationCountsPredictionsByClass) {
  DeepLearningTask task = plain_task(3);
  task.confusion_matrix().top_k(2).early_stop({.metric = "macro_f1", .patience = 30});
  task.compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  const EvalResult eval = task.evaluate();
  EXPECT_EQ(eval.confusion.classes, 4);
  EXPECT_EQ(eval.confusion.num_samples(), 75);
  const ClassReport report = class_report(eval.confusion);
  EXPECT_DOUBLE_EQ(report.micro.recall, eval.top1);
  EXPECT_DOUBLE_EQ(report.macro.f1, result.history.back().macro_f1);
  EXPECT_GE(eval.top5, eval.top1);
  DeepLearningTask all = plain_task(3);
  all.top_k(4).compile(CompileInfo::NONE);
  EXPECT_DOUBLE_EQ(all.run().history.back().top5, 1) << "of four classes";
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        DeepLearningTask blind = plain_task(1);
        blind.early_stop({.metric = "macro_f1"}).compile(CompileInfo::NONE);
      },
      "needs confusion_matrix"));
}

TEST(ControlRanks, EachSampleIsCountedOnceOverAllRanks) {
  const toy::Quiet quiet;
  std::vector<std::vector<std::int64_t>> counts;
  for (const int ranks : {1, 3}) {
    Session session = toy::make_session(21);
    session.global.cpu_ranks(ranks);
    DeepLearningTask task = toy::make_task(session, toy::make_data(210), 1);
    task.confusion_matrix().compile(CompileInfo::NONE);
    const EvalResult eval = task.evaluate();
    EXPECT_EQ(eval.confusion.num_samples(), 75) << ranks << " ranks";
    counts.push_back(eval.confusion.counts);
  }
  EXPECT_EQ(counts[0], counts[1]);
}

// 210 samples in batches of 20: the last step has two micro-batches of 5, or one of 10.
TEST_F(Control, AccumulatedMicroBatchesAreTheLargeBatch) {
  const auto weights_after = [](int micro_batches, int workers) {
    Session session = device_session(workers);
    session.global.accumulate_steps(micro_batches);
    DeepLearningTask task = plain_task(2);
    task.session(session).compile(CompileInfo::NONE);
    task.run();
    return task.fetch("0.weight");
  };
  const Tensor whole = weights_after(1, 1);
  for (const int micro_batches : {2, 4}) {
    const Tensor parts = weights_after(micro_batches, 1);
    EXPECT_TRUE(is_close(parts, whole, run_tolerance(22, false))) << micro_batches;
    for (const int workers : {2, 3})
      EXPECT_TRUE(equal(weights_after(micro_batches, workers), parts)) << workers << " workers";
  }
}

// One objective that trains everything is what loss() and optimizer() are.
TEST_F(Control, OneObjectiveOfAllIsTheUsualRun) {
  const BluePrint model =
      seq(std::vector<BluePrint>{seq(fc(16, true), tanh(), fc(4, true)).named("net")});
  const auto weights_after = [&](bool objective) {
    DeepLearningTask task = plain_task(2);
    task.model(model);
    if (objective)
      task.objectives({{"net.", CrossEntropyLoss(), SGD().weight_decay(0.01), std::nullopt}});
    task.compile(CompileInfo::NONE);
    task.run();
    EXPECT_EQ(task.fetch("counters").at(2), 22) << "updates";
    return task.fetch("net.0.weight");
  };
  EXPECT_TRUE(is_close(weights_after(true), weights_after(false), run_tolerance(22, false)));
}

}  // namespace
}  // namespace tr::test
