// SPDX-License-Identifier: Apache-2.0
// The second article's data: real photos through its whole chain into a small network.
#include <gtest/gtest.h>

#include "renaissance.h"
#include "support/log_capture.h"
#include "support/test_data.h"
#include "support/throws.h"

namespace tr {
namespace {

Session settings(const std::string& folder) {
  Session session;
  session.global.use_cpu().manual_seed(123).global_batch_size(16).threads(1);
  session.global.train_resolution(224).val_resolution(224);
  session.preprocessor.dataset("imagenet", folder)
      .normalization(NormMode::IMAGENET)
      .train_transforms(RandomResizedCrop(224), RandomHorizontalFlip(),
                        ColorJitter(0.2f, 0.2f, 0.2f, 0.1f), RandomErasing(0.25f))
      .val_transforms(Resize(256), CenterCrop(224));
  return session;
}

DeepLearningTask task_of(const Session& session, int outputs) {
  DeepLearningTask task;
  task.session(session)
      .model(seq(flatten(), fc(16, true), relu(), fc(outputs, true)))
      .loss(CrossEntropyLoss().label_smoothing(0.1f))
      .optimizer(SGD().momentum(0.9).weight_decay(1e-4).nesterov())
      .scheduler(CosineAnnealingLR().base_lr(1e-6))
      .total_epochs(1);
  return task;
}

TEST(Photos, TheArticlesChainFeedsAnEpoch) {
  const std::string folder = test::real_data_folder("imagenet-sample");
  if (folder.empty()) GTEST_SKIP() << "needs the real data set imagenet-sample in build/data";
  const test::LogCapture log;
  std::vector<std::string> hashes;
  for (const int workers : {1, 3}) {
    Session session = settings(folder);
    session.preprocessor.preprocess_workers(workers);
    DeepLearningTask task = task_of(session, 1000);  // more outputs than the 304 classes
    task.compile(CompileInfo::NONE);
    const TrainingResult result = task.run();
    ASSERT_EQ(result.history.size(), 1u);
    EXPECT_GT(result.history[0].train_loss, 3.0);
    EXPECT_LT(result.history[0].train_loss, 20.0);
    EXPECT_EQ(result.history[0].bad_samples, 0);
    EXPECT_GT(result.history[0].decode_ms, 0);
    EXPECT_LT(result.history[0].top1, 0);  // there is no validation split
    hashes.push_back(result.weights_sha256);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(log.count("validation is off: the data have no validation split"), 2) << log.text();
}

TEST(Photos, ALabelWithoutOutputIsNamed) {
  const std::string folder = test::real_data_folder("imagenet-sample");
  if (folder.empty()) GTEST_SKIP() << "needs the real data set imagenet-sample in build/data";
  const test::LogCapture log;
  DeepLearningTask task = task_of(settings(folder), 300);
  EXPECT_TRUE(
      test::throws<InvalidArgument>([&] { task.compile(CompileInfo::NONE); },
                                    "is 300, expected 0 to 299 (the model has 300 outputs"));
}

}  // namespace
}  // namespace tr
