// SPDX-License-Identifier: Apache-2.0
// Batch norm's running statistics under accumulation and several ranks.
#include <gtest/gtest.h>

#include <cmath>

#include "support/temp_folder.h"
#include "support/throws.h"
#include "toy.h"

namespace tr {
namespace {

std::shared_ptr<const Dataset> images(const Tensor& image) {
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < image.shape()[0]; ++i) labels.push_back(std::int32_t(i % 3));
  return make_tensor_dataset(
      {{"image", image},
       {"label", Tensor::from({image.shape()[0]}, std::span<const std::int32_t>(labels))}},
      3);
}

DeepLearningTask make_task(const DatasetPair& data, int accumulate_steps, int ranks) {
  Session session = toy::make_session(20);
  session.global.accumulate_steps(accumulate_steps).cpu_ranks(ranks);
  DeepLearningTask task;
  task.model(seq(bn(), flatten(), fc(3, true))).optimizer(SGD()).total_epochs(3);
  task.session(session).dataset(data);
  return task;
}

// A rank whose part of the last batch is empty runs its graph on zeros: that is no sample.
TEST(RunningStatistics, BatchesWithoutSamplesLeaveThemAlone) {
  const toy::Quiet quiet;
  const Tensor ones = Tensor::full({25, 2, 2, 1}, 1, DType::FP32);
  struct Case {
    int accumulate_steps, ranks, updates;  // of rank 0 in an epoch: 20 samples, then 5
  };
  for (const auto& [accumulate_steps, ranks, updates] :
       {Case{1, 1, 2}, {2, 1, 3}, {4, 1, 5}, {1, 2, 2}, {2, 2, 3}, {1, 4, 2}, {5, 2, 7}}) {
    SCOPED_TRACE(testing::Message() << accumulate_steps << " micro-batches, " << ranks << " ranks");
    DeepLearningTask task = make_task({images(ones), nullptr}, accumulate_steps, ranks);
    task.compile(CompileInfo::NONE).run();
    const double want = 1 - std::pow(0.9, 3 * updates);
    EXPECT_NEAR(task.fetch("0.running_mean").data<float>()[0], want, 1e-5);
  }
}

// Its graph has a size that the run has anyway: one sample has no variance over the batch.
TEST(RunningStatistics, AMicroBatchThatIsAlwaysEmptyNeedsNoBatchOfOne) {
  const toy::Quiet quiet;
  DeepLearningTask task =
      make_task({images(Tensor::uniform({10, 1, 1, 4}, -1, 1, 3)), nullptr}, 4, 1);
  task.model(seq(flatten(), fc(5, true), bn(), fc(3, true)));
  EXPECT_NO_THROW(task.compile(CompileInfo::NONE).run());
}

TEST(RunningStatistics, ALastBatchOfOneSampleIsToldAsSuch) {
  const toy::Quiet quiet;
  DeepLearningTask task =
      make_task({images(Tensor::uniform({41, 1, 1, 4}, -1, 1, 3)), nullptr}, 1, 1);
  task.model(seq(flatten(), fc(5, true), bn(), fc(3, true)));
  EXPECT_TRUE(test::throws<InvalidArgument>(
      [&] { task.compile(CompileInfo::NONE); },
      "an epoch of 41 samples in batches of 20 ends with a batch of 1 sample"));
  EXPECT_NO_THROW(task.set("drop_last", "true").compile(CompileInfo::NONE));
}

// Each rank has those of its own batches; validation reads rank 0's, as all that is saved.
TEST(RunningStatistics, RanksValidateWithThoseThatAreSaved) {
  const toy::Quiet quiet;
  const DatasetPair data = {images(Tensor::uniform({90, 2, 2, 1}, -1, 3, 1)),
                            images(Tensor::uniform({50, 2, 2, 1}, -1, 3, 2))};
  DeepLearningTask unbroken = make_task(data, 1, 2);
  const TrainingResult want = unbroken.compile(CompileInfo::NONE).run();
  const test::TempFolder folder;
  DeepLearningTask first = make_task(data, 1, 2);
  first.total_epochs(2).save_every(folder.path()).compile(CompileInfo::NONE).run();
  DeepLearningTask second = make_task(data, 1, 2);
  second.resume(folder.path()).compile(CompileInfo::NONE);
  const TrainingResult got = second.run();
  EXPECT_EQ(got.weights_sha256, want.weights_sha256);
  EXPECT_EQ(got.history.back().val_loss, want.history.back().val_loss);
  second.save_weights(folder.path("weights"));
  DeepLearningTask alone = make_task({nullptr, data.val}, 1, 1);
  alone.load_weights(folder.path("weights")).compile(CompileInfo::NONE);
  EXPECT_NEAR(alone.evaluate().loss, want.history.back().val_loss, 1e-6);
}

}  // namespace
}  // namespace tr
