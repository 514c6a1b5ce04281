// SPDX-License-Identifier: Apache-2.0
// Steps whose gradient is not finite: overflows on purpose. One program for each device:
// TR_TEST_DEVICE is its DeviceKind.
#include <cmath>

#include "correction/golden_run.h"
#include "graph/step_tables.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "support/compare.h"

namespace tr::test {
namespace {

using SkippedStep = RunTest;

constexpr std::int64_t kBatch = 7, kSteps = 6, kBadStep = 3;  // 1-based

// 12 features a sample; the whole batch of step `bad` is multiplied by `factor`.
std::shared_ptr<const Dataset> samples(std::int64_t bad, float factor) {
  Tensor x = Tensor::uniform({kBatch * kSteps, 12}, -1, 1, 1);
  for (std::int64_t i = 0; i < kBatch * 12; ++i) {
    x.data<float>()[(bad - 1) * kBatch * 12 + i] *= factor;
  }
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < kBatch * kSteps; ++i) labels.push_back(std::int32_t(i * 3 % 5));
  return make_tensor_dataset({{"image", x}, {"label", Tensor::from({kBatch * kSteps}, labels)}}, 5);
}

DeepLearningTask task_on(std::shared_ptr<const Dataset> data, const std::string& amp) {
  silence();
  RunOptions options;
  options.amp = amp;
  DeepLearningTask task;
  task.session(session_of(options))
      .dataset({std::move(data), nullptr})
      .model(seq(fc(16, true), relu(), fc(5, true)))
      .loss(CrossEntropyLoss())
      .optimizer(AdamW().weight_decay(0.1))
      .scheduler(ConstantLR().base_lr(0.01))
      .use_ema(0.9f)
      .total_epochs(1);
  return task;
}

struct Snapshot {
  std::vector<Tensor> trained;  // all that a good step changes
  std::int64_t step = 0, updates = 0, skipped = 0;
  double loss_scale = 0;
};

Snapshot snapshot(DeepLearningTask& task) {
  Snapshot now;
  for (const std::string name : {"0.weight", "0.bias", "2.weight", "2.bias"}) {
    now.trained.push_back(task.fetch(name));
    now.trained.push_back(task.fetch("ema/" + name));
  }
  for (const std::string name : {"range(moment1)", "range(moment2)", "range(weight_cast)"}) {
    now.trained.push_back(task.fetch(name));
  }
  const Tensor counters = task.fetch("counters");
  now.step = std::int64_t(counters.at(kCounterStep));
  now.updates = std::int64_t(counters.at(kCounterUpdates));
  now.skipped = std::int64_t(counters.at(kCounterSkipped));
  now.loss_scale = task.fetch("loss_scale").item();
  return now;
}

bool equal(const Snapshot& a, const Snapshot& b) {
  for (std::size_t i = 0; i < a.trained.size(); ++i) {
    if (!same_bytes(a.trained[i], b.trained[i])) return false;
  }
  return true;
}

TEST_F(SkippedStep, AnFp16OverflowChangesNothingAndHalvesTheScale) {
  DeepLearningTask task = task_on(samples(kBadStep, 1e6f), "fp16");
  std::vector<Snapshot> after;
  Callbacks callbacks;
  callbacks.on_step = [&](DeepLearningTask& t, std::int64_t, double, double) {
    after.push_back(snapshot(t));
  };
  task.callbacks(std::move(callbacks)).compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  ASSERT_EQ(std::int64_t(after.size()), kSteps);
  for (std::int64_t step = 1; step < kSteps; ++step) {
    const Snapshot &before = after[std::size_t(step) - 1], &now = after[std::size_t(step)];
    const bool bad = step + 1 == kBadStep;
    SCOPED_TRACE("step " + std::to_string(step + 1));
    EXPECT_EQ(equal(before, now), bad);
    EXPECT_EQ(now.step, step + 1);
    EXPECT_EQ(now.updates, before.updates + (bad ? 0 : 1));
    EXPECT_EQ(now.skipped, before.skipped + (bad ? 1 : 0));
    EXPECT_EQ(now.loss_scale, bad ? before.loss_scale / 2 : before.loss_scale);
  }
  EXPECT_EQ(after.front().loss_scale, 8192);
  ASSERT_EQ(result.history.size(), 1u);
  EXPECT_EQ(result.history[0].skipped_steps, 1);
  EXPECT_TRUE(std::isfinite(result.history[0].train_loss)) << "a skipped step's loss is left out";
}

// What is skipped leaves no trace: the weights are those of a run that never saw the batch.
TEST_F(SkippedStep, TheRunGoesOnAsIfTheBatchHadNotBeen) {
  DeepLearningTask with = task_on(samples(kSteps, 1e6f), "fp16");
  with.compile(CompileInfo::NONE).run();
  DeepLearningTask without = task_on(samples(kSteps, 1), "fp16");
  std::vector<Tensor> weights;
  Callbacks callbacks;
  callbacks.on_step = [&](DeepLearningTask& t, std::int64_t step, double, double) {
    if (step == kSteps - 1) weights = {t.fetch("0.weight"), t.fetch("2.bias")};
  };
  without.callbacks(std::move(callbacks)).compile(CompileInfo::NONE).run();
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_TRUE(same_bytes(with.fetch("0.weight"), weights[0]));
  EXPECT_TRUE(same_bytes(with.fetch("2.bias"), weights[1]));
}

TEST_F(SkippedStep, WithoutALossScaleItEndsTheRun) {
  // 3e38 is finite, what the layer makes of it is not.
  DeepLearningTask wide = task_on(samples(kSteps, 3e38f), "");
  wide.compile(CompileInfo::NONE);
  const std::vector<std::string> words = {"step 6 of epoch 1", "layer \"0\"", "fc",
                                          "skipped_step_test.cpp"};
  EXPECT_TRUE(refuses([&] { wide.run(); }, words));
  EXPECT_TRUE(has_words(wide.find_nan(), {"layer \"0\"", "fc"}));
  EXPECT_TRUE(std::isfinite(wide.fetch("0.weight").at(0))) << "the step changed nothing";
}

// Short epochs: the scale needs more than one of them to fall to where fp16 holds the gradients.
TEST_F(SkippedStep, AnEpochMayPassWhileTheScaleFalls) {
  DeepLearningTask task = task_on(samples(kSteps, 1), "fp16");
  task.set("loss_scale", "67108864").set("total_epochs", "3").compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  ASSERT_EQ(result.history.size(), 3u);
  EXPECT_EQ(result.history[0].skipped_steps, kSteps);
  EXPECT_TRUE(std::isnan(result.history[0].train_loss)) << "nothing was learnt, so there is none";
  EXPECT_EQ(result.history[2].skipped_steps, 0);
  EXPECT_TRUE(std::isfinite(result.history[2].train_loss));
}

// Images that no loss scale makes finite: an epoch passes while it falls, the next one is refused.
TEST_F(SkippedStep, ARunWithoutOneGoodStepEndsWithAnError) {
  const Tensor x = Tensor::full({kBatch * kSteps, 12}, 1e6);
  const Tensor labels = Tensor::zeros({kBatch * kSteps}, DType::INT32);
  DeepLearningTask task =
      task_on(make_tensor_dataset({{"image", x}, {"label", labels}}, 5), "fp16");
  task.set("loss_scale", "8").compile(CompileInfo::NONE);
  EXPECT_TRUE(refuses([&] { task.run(); }, {"all 6 steps", "skipped", "image"}));
}

}  // namespace
}  // namespace tr::test
