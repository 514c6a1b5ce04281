// SPDX-License-Identifier: Apache-2.0
// Folders of pictures as a task meets them: classes and outputs, a missing validation set, and that
// prediction sees what validation sees.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "support/log_capture.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "toy.h"

namespace tr {
namespace {

namespace fs = std::filesystem;
using test::LogCapture;
using test::TempFolder;
using test::throws;

const char* const kNames[] = {"whole.jpg",        "gray.jpg",        "cmyk_adobe.jpg",
                              "rgb16.png",        "one_pixel.png",   "exif_orientation6.jpg",
                              "baseline.jpg",     "png_inside.JPEG", "palette_trns.png",
                              "odd_420_17x13.jpg"};

void copy_case(const std::string& name, const TempFolder& folder, const std::string& to) {
  fs::create_directories(folder.path(to));
  fs::copy_file(std::string(TR_SOURCE_FOLDER "/tests/cases/img/") + name,
                folder.path(to) + "/" + name);
}

/// Three classes with pictures of many kinds and sizes.
void make_tree(const TempFolder& folder, bool with_val = true) {
  for (const char* name : kNames) {
    for (const char* c : {"a", "b", "c"}) copy_case(name, folder, std::string("train/") + c);
    if (with_val) copy_case(name, folder, name[0] < 'n' ? "val/a" : "val/c");
  }
}

Session session_of(const TempFolder& folder) {
  Session session = toy::make_session(8, 2);
  session.preprocessor.dataset("folder", folder.path())
      .normalization(NormMode::IMAGENET)
      .train_transforms(RandomResizedCrop(12), RandomHorizontalFlip())
      .val_transforms(Resize(14, ResizeMode::SQUARE), CenterCrop(12));
  return session;
}

DeepLearningTask task_of(const Session& session, int outputs) {
  DeepLearningTask task;
  task.session(session)
      .model(seq(flatten(), fc(outputs, true)))
      .loss(CrossEntropyLoss())
      .optimizer(SGD())
      .scheduler(ConstantLR().base_lr(0.01))
      .total_epochs(1);
  return task;
}

TEST(Pictures, FewerClassesThanOutputsTrainAndAMissingValidationIsAnnounced) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder, /*with_val=*/false);
  DeepLearningTask task = task_of(session_of(folder), 7);
  task.compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  EXPECT_EQ(result.history.size(), 1u);
  EXPECT_LT(result.history[0].top1, 0);
  EXPECT_EQ(log.count("validation is off: the data have no validation split"), 1) << log.text();
}

TEST(Pictures, RectanglesTrainAndPredict) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  Session session = session_of(folder);
  session.preprocessor.train_transforms(RandomResizedCrop(ImageSize(6, 16)))
      .val_transforms(Resize(ImageSize(6, 16), ResizeMode::STRETCH));
  session.global.input_resolution({6, 16});
  DeepLearningTask task = task_of(session, 3);
  task.compile(CompileInfo::NONE);
  EXPECT_EQ(task.run().history.size(), 1u);
  EXPECT_EQ(task.fetch("1.weight").shape(), Shape({3, 6 * 16 * 3}));
  DeepLearningTask predicts = task_of(session, 3);  // the resolution alone tells the shape
  predicts.dataset({}).compile(CompileInfo::NONE);
  EXPECT_EQ(predicts.predict(Tensor::zeros({2, 6, 16, 3})).shape(), Shape({2, 3}));
  session.global.train_resolution({16, 6});
  DeepLearningTask turned = task_of(session, 3);
  EXPECT_TRUE(throws<InvalidArgument>([&] { turned.compile(CompileInfo::NONE); },
                                      "into 6x16, expected 16x6 (the configured resolution)"));
  session.global.train_resolution({6, 16});
  session.preprocessor.val_transforms(Resize(ImageSize(16, 7), ResizeMode::STRETCH));
  DeepLearningTask other = task_of(session, 3);
  EXPECT_TRUE(throws<InvalidArgument>([&] { other.compile(CompileInfo::NONE); }, "16"));
}

// Each rank would else hold a copy of its own: the files are gone once the first one has read them.
TEST(Pictures, FullyModeReadsASetOnceForAllRanks) {
  const auto sha_of = [](bool fully, int ranks) {
    const TempFolder folder;
    make_tree(folder);
    const LogCapture log;
    Session session = session_of(folder);
    session.global.cpu_ranks(ranks);
    session.preprocessor.fully_mode(fully);
    DeepLearningTask task = task_of(session, 3);
    task.compile(CompileInfo::NONE);
    const std::string sha = task.run().weights_sha256;
    for (const char* set :
         {"data: 30 samples of folder lie in", "data: 10 samples of folder lie in"})
      EXPECT_EQ(log.count(set), fully ? 1 : 0) << log.text();
    return sha;
  };
  EXPECT_EQ(sha_of(true, 1), sha_of(false, 1));
  EXPECT_EQ(sha_of(true, 2), sha_of(false, 2));
}

TEST(Pictures, ALabelWithoutOutputIsAnErrorThatNamesTheSample) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  DeepLearningTask task = task_of(session_of(folder), 2);
  EXPECT_TRUE(throws<InvalidArgument>([&] { task.compile(CompileInfo::NONE); },
                                      folder.path("train/c/baseline.jpg")));
  DeepLearningTask other = task_of(session_of(folder), 2);
  EXPECT_TRUE(throws<InvalidArgument>([&] { other.compile(CompileInfo::NONE); },
                                      "is 2, expected 0 to 1 (the model has 2 outputs"));
}

/// Share of `paths` whose largest score is that of their class: a, the first one, or c, the third.
double top1_of(const Tensor& scores, const std::vector<std::string>& paths) {
  const std::int64_t classes = scores.shape().back();
  double right = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const float* row = scores.data<float>() + std::int64_t(i) * classes;
    const auto best = std::max_element(row, row + classes) - row;
    right += best == (paths[i].find("/val/a/") != std::string::npos ? 0 : 2) ? 1 : 0;
  }
  return right / double(paths.size());
}

TEST(Pictures, PredictionSeesWhatValidationSees) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  std::vector<std::string> paths;
  for (const char* c : {"val/a", "val/c"}) {
    for (const auto& entry : fs::directory_iterator(folder.path(c)))
      paths.push_back(entry.path().string());
  }
  ASSERT_EQ(paths.size(), std::size(kNames));
  std::vector<Tensor> of_policy;
  for (const ExifPolicy exif : {ExifPolicy::APPLY, ExifPolicy::IGNORE}) {
    Session session = session_of(folder);
    session.preprocessor.exif(exif);
    DeepLearningTask task = task_of(session, 3);
    task.compile(CompileInfo::NONE);
    const Tensor scores = task.predict_pictures(paths);
    ASSERT_EQ(scores.shape(), (Shape{std::int64_t(paths.size()), 3}));
    EXPECT_EQ(task.evaluate().top1, top1_of(scores, paths));
    for (std::size_t i = 0; i < paths.size(); ++i) {  // alone, and in a batch with others
      const Tensor alone = task.predict_pictures({paths[i]});
      EXPECT_EQ(std::memcmp(alone.raw(), scores.data<float>() + 3 * i, 12), 0) << paths[i];
    }
    of_policy.push_back(scores);
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const bool same = std::memcmp(of_policy[0].data<float>() + 3 * i,
                                  of_policy[1].data<float>() + 3 * i, 12) == 0;
    EXPECT_EQ(same, !paths[i].ends_with("exif_orientation6.jpg")) << paths[i];
  }
}

TEST(Pictures, PredictionOfWhatIsNoPictureIsAnErrorWhateverThePolicy) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  copy_case("truncated_half.jpg", folder, "odd");
  Session session = session_of(folder);
  session.preprocessor.bad_sample_policy(BadSamplePolicy::SKIP);
  DeepLearningTask task = task_of(session, 3);
  task.compile(CompileInfo::NONE);
  const std::string good = folder.path("train/a/whole.jpg");
  EXPECT_TRUE(throws<DataError>(
      [&] {
        task.predict_pictures({good, folder.path("odd/truncated_half.jpg")});
      },
      "odd/truncated_half.jpg"));
  EXPECT_TRUE(throws<DataError>(
      [&] {
        task.predict_pictures({folder.path("gone.png"), good});
      },
      "gone.png: cannot be opened: No such file"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { task.predict_pictures({}); }, "there are no files"));
}

TEST(Pictures, TransformsThatLeaveTheSizeOpenPredictNone) {
  const LogCapture log;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data());
  task.compile(CompileInfo::NONE);
  EXPECT_TRUE(throws<InvalidArgument>([&] { task.predict_pictures({"x.png"}); },
                                      "a step must give them one size"));
}

}  // namespace
}  // namespace tr
