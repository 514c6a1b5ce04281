// SPDX-License-Identifier: Apache-2.0
// Training on mixed batches.
#include <gtest/gtest.h>

#include "renaissance/data/datasets.h"
#include "support/log_capture.h"
#include "support/near.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "toy.h"

namespace tr {
namespace {

using test::throws;

constexpr int kEpochs = 3;

DatasetPair digits(std::int64_t n = 430) {
  return {make_procedural_digits("train", n, 1), make_procedural_digits("val", 110, 1)};
}

Session mixing_session(std::vector<Transform> mixing = {Mixup(0.4f), CutMix(1, 0.5f)}) {
  Session session = toy::make_session(24, 2);
  std::vector<Transform> steps = {RandomErasing(0.3f)};
  steps.insert(steps.end(), mixing.begin(), mixing.end());
  session.preprocessor.set_train_transforms(std::move(steps)).normalization(NormMode::MNIST);
  return session;
}

/// More outputs than the set has classes.
DeepLearningTask mixing_task(const Session& session, const DatasetPair& data = digits()) {
  DeepLearningTask task = toy::make_task(session, data, kEpochs);
  task.model(seq(flatten(), fc(48, true), relu(), fc(12, true)));
  return task;
}

TrainingResult run_with(const std::vector<std::pair<const char*, const char*>>& sets) {
  DeepLearningTask task = mixing_task(mixing_session());
  for (const auto& [key, value] : sets) task.set(key, value);
  task.compile(CompileInfo::NONE);
  return task.run();
}

TEST(MixedTraining, Learns) {
  const test::LogCapture log;
  set_progress_sink({});
  Session session = mixing_session();
  session.preprocessor.train_transforms(Mixup(0.2f), CutMix(1, 0.25f));
  DeepLearningTask task = mixing_task(session, digits(4000));
  task.model(seq(flatten(), fc(128, true), relu(), fc(12, true))).total_epochs(8);
  task.compile(CompileInfo::NONE);
  EXPECT_EQ(log.count("count the heavier label"), 1) << log.text();
  const TrainingResult result = task.run();
  EXPECT_GT(result.best_top1, 0.75);
  const EpochRecord& last = result.history.back();
  EXPECT_GT(last.train_loss, last.val_loss) << "pictures of validation are not mixed";
  EXPECT_GT(last.mix_ms, 0);
}

TEST(MixedTraining, BytesDoNotDependOnWorkersRanksOrMicroBatches) {
  const toy::Quiet quiet;
  const TrainingResult want = run_with({});
  EXPECT_EQ(run_with({{"workers", "4"}}).weights_sha256, want.weights_sha256);
  EXPECT_NE(run_with({{"seed", "8"}}).weights_sha256, want.weights_sha256);
  const TrainingResult micro = run_with({{"accumulate_steps", "3"}});
  const TrainingResult ranks = run_with({{"cpu_ranks", "3"}});
  EXPECT_EQ(micro.weights_sha256, ranks.weights_sha256);
  for (std::size_t i = 0; i < want.history.size(); ++i) {
    EXPECT_EQ(micro.history[i].train_loss, ranks.history[i].train_loss);
    EXPECT_TRUE(test::is_near(micro.history[i].train_loss, want.history[i].train_loss,
                              test::run_tolerance(54, true)));
  }
}

TEST(MixedTraining, ResumesInMidEpoch) {
  const toy::Quiet quiet;
  const TrainingResult want = run_with({});
  for (const std::int64_t stop_at : {5, 18, 40}) {
    const test::TempFolder folder;
    for (const bool second : {false, true}) {
      DeepLearningTask task = mixing_task(mixing_session());
      task.save_every(folder.path(), 1, 2).resume().set("workers", second ? "3" : "1");
      task.callbacks({.on_step =
                          [&](DeepLearningTask& t, std::int64_t step, double, double) {
                            if (!second && step == stop_at) t.cancel();
                          },
                      .on_epoch = {}});
      task.compile(CompileInfo::NONE);
      const TrainingResult result = task.run();
      if (second) {
        EXPECT_EQ(result.weights_sha256, want.weights_sha256);
      }
    }
  }
}

TEST(MixedTraining, WithProbabilityZeroIsTrainingWithoutIt) {
  const toy::Quiet quiet;
  const auto weights = [](std::vector<Transform> mixing) {
    DeepLearningTask task = mixing_task(mixing_session(std::move(mixing)));
    task.compile(CompileInfo::NONE);
    return task.run().history.back().train_loss;
  };
  EXPECT_TRUE(test::is_near(weights({Mixup(1, 0)}), weights({}), test::run_tolerance(54, true)));
}

TEST(MixedTraining, RefusesWhatIsNotMixed) {
  const toy::Quiet quiet;
  const auto refused = [](DeepLearningTask task, const char* why) {
    return throws<InvalidArgument>([&] { task.compile(CompileInfo::NONE); }, why);
  };
  DeepLearningTask task = mixing_task(mixing_session());
  task.loss(CrossEntropyLoss() + MSELoss());
  EXPECT_TRUE(refused(std::move(task), "compares with \"target\""));
  const Tensor images({24, 28, 28, 1}, DType::UINT8);
  const DatasetPair unlabelled = {make_tensor_dataset({{"image", images}}), nullptr};
  EXPECT_TRUE(refused(mixing_task(mixing_session(), unlabelled), "no field \"label\""));
  Session session = mixing_session();
  session.preprocessor.val_transforms(CutMix());
  EXPECT_TRUE(refused(mixing_task(session), "val_transforms are CutMix(1)"));
  Session floats = mixing_session({Mixup()});
  const DatasetPair features = toy::make_data();
  EXPECT_TRUE(refused(toy::make_task(floats, features), "expected uint8 pixels"));
}

}  // namespace
}  // namespace tr
