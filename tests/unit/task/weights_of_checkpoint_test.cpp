// SPDX-License-Identifier: Apache-2.0
// load_weights of a checkpoint holds names and shapes as strictly as that of a file of weights.
#include <gtest/gtest.h>

#include "support/temp_folder.h"
#include "support/throws.h"
#include "toy.h"

namespace tr {
namespace {

/// A run of one epoch with averages; its best.safetensors is a checkpoint.
std::string checkpoint_of(const BluePrint& model, const test::TempFolder& folder) {
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  task.model(model).use_ema(0.9f).save_every(folder.path()).compile(CompileInfo::NONE);
  task.run();
  return folder.path("best.safetensors");
}

/// A task of the toy's model that begins with the weights of `file`.
DeepLearningTask begun_with(const std::string& file, bool strict = true) {
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  task.load_weights(file, strict);
  return task;
}

TEST(WeightsOfCheckpoint, TheAverageIsTaken) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  task.use_ema(0.9f).save_every(folder.path()).compile(CompileInfo::NONE);
  task.run();
  DeepLearningTask other = begun_with(folder.path("best.safetensors"));
  other.compile(CompileInfo::NONE);
  const auto averages = task.evaluate(), weights = other.evaluate();
  EXPECT_EQ(averages.loss, weights.loss);
}

TEST(WeightsOfCheckpoint, ThoseThatTheModelLacksAreRefused) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const std::string file = checkpoint_of(
      seq(fc(16, true), relu(), dropout(0.1f), fc(4, true), relu(), fc(4, true)), folder);
  DeepLearningTask strict = begun_with(file);
  EXPECT_TRUE(test::throws<InvalidArgument>([&] { strict.compile(CompileInfo::NONE); },
                                            "not in the model: 5.bias, 5.weight"));
  DeepLearningTask lenient = begun_with(file, false);
  lenient.compile(CompileInfo::NONE);
  const Tensor want = load_safetensors(file).at("ema/0.weight");
  EXPECT_EQ(lenient.fetch("0.weight").at(0), want.at(0));
}

TEST(WeightsOfCheckpoint, ThoseOfAnotherShapeAreNoMissingOnes) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const std::string file =
      checkpoint_of(seq(fc(16, true), relu(), dropout(0.1f), fc(5, true)), folder);
  DeepLearningTask strict = begun_with(file);
  EXPECT_TRUE(test::throws<InvalidArgument>(
      [&] { strict.compile(CompileInfo::NONE); },
      "of another shape or type: 3.weight (the checkpoint has fp32 [5, 16] in memory, expected "
      "fp32 [4, 16]), 3.bias"));
}

TEST(Weights, AFileOfWhichNothingFitsIsRefusedThoughLenient) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  save_safetensors(folder.path("w"),
                   {{{"module.0.weight", Tensor::uniform({16, 8}, -1, 1, 1)}}, {}});
  DeepLearningTask lenient = begun_with(folder.path("w"), false);
  EXPECT_TRUE(test::throws<InvalidArgument>([&] { lenient.compile(CompileInfo::NONE); },
                                            "nothing in it fits the model"));
}

}  // namespace
}  // namespace tr
