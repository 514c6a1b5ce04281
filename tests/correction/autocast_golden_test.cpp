// SPDX-License-Identifier: Apache-2.0
// Mixed precision against torch.autocast: 200 steps from equal weights on equal batches, fp16 with
// a growing loss scale and a batch in each epoch that fp16 cannot hold. One program for each
// device: TR_TEST_DEVICE is its DeviceKind.
#include <cmath>

#include "correction/golden_run.h"
#include "renaissance/core/log.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "support/compare.h"
#include "support/temp_folder.h"

namespace tr::test {
namespace {

struct AmpRun {
  std::vector<float> losses;
  std::vector<double> scales;  // before each step
  TrainingResult result;
  std::vector<std::string> warnings;
};

AmpRun train_amp(const SafetensorsFile& file, const std::string& amp, double momentum,
                 const std::string& precision = "") {
  RunOptions options;
  options.batch = 8;
  options.epochs = 4;
  options.lr = 0.05;
  options.amp = amp;
  AmpRun run;
  const TempFolder folder;
  const BluePrint model = seq(fc(32, true), relu(), fc(16, true), silu(), fc(5, true));
  const Loss loss = CrossEntropyLoss();
  const Optimizer sgd = SGD().momentum(momentum);
  DeepLearningTask task;
  set_up(task, {file, model, loss, sgd}, options, folder.path("initial.safetensors"));
  Callbacks callbacks;
  double scale = 1024;
  callbacks.on_step = [&](DeepLearningTask& t, std::int64_t, double mean, double) {
    run.losses.push_back(float(mean));
    run.scales.push_back(scale);
    scale = t.fetch("loss_scale").item();
  };
  task.set("loss_scale", "1024").set("loss_scale_growth", "40").set("precision", precision);
  task.callbacks(std::move(callbacks)).compile(CompileInfo::NONE);
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::WARNING) run.warnings.emplace_back(text);
  });
  run.result = task.run();
  silence();
  return run;
}

/// From the losses of PyTorch, over the steps that changed its weights.
double distance(const std::vector<float>& losses, const Tensor& want) {
  return rms_distance(Tensor::from({std::int64_t(losses.size())}, losses), want);
}

/// Two roundings of the same run lie about as far apart as each of them from the exact one, times
/// the root of two.
double band(const SafetensorsFile& file) {
  return 2 * std::stod(file.metadata.at("rms_from_fp32"));
}

class AutocastGolden : public DeviceTest<kRunDevice, testing::TestWithParam<std::string>> {
 protected:
  const SafetensorsFile file_ = golden("autocast_" + GetParam());
};

TEST_P(AutocastGolden, TwoHundredStepsStayInTheBand) {
  const AmpRun run = train_amp(file_, GetParam(), 0.9);
  ASSERT_EQ(run.losses.size(), 200u);
  EXPECT_LT(distance(run.losses, file_.at("losses")), band(file_));
  EXPECT_GT(distance(run.losses, file_.at("losses")), 0) << "they round in other places";
  for (std::size_t i = 0; i < 200; ++i) {
    const bool skipped = !std::isfinite(file_.at("losses").at(std::int64_t(i)));
    EXPECT_EQ(std::isfinite(run.losses[i]), !skipped) << "step " << i + 1;
  }
}

TEST_P(AutocastGolden, AnotherMomentumLeavesTheBand) {
  const AmpRun run = train_amp(file_, GetParam(), 0.85);
  EXPECT_GT(distance(run.losses, file_.at("losses")), band(file_));
}

INSTANTIATE_TEST_SUITE_P(All, AutocastGolden, testing::Values("bf16", "fp16"),
                         [](const auto& info) { return info.param; });

// Images that are bf16 already: then a run under amp whose layers are all in fp32 is the run
// without amp, to the byte.
using AutocastPrecision = RunTest;
TEST_F(AutocastPrecision, AllLayersInFp32AreTheRunWithoutAmp) {
  SafetensorsFile file = golden("autocast_bf16");
  for (NamedTensor& entry : file.tensors) {
    if (entry.name == "field.image") entry.tensor = entry.tensor.to(DType::BF16).to(DType::FP32);
  }
  const AmpRun full = train_amp(file, "", 0.9), all = train_amp(file, "bf16", 0.9, "=fp32"),
               head = train_amp(file, "bf16", 0.9, "4=fp32"), mixed = train_amp(file, "bf16", 0.9);
  EXPECT_EQ(all.losses, full.losses);
  EXPECT_EQ(all.result.weights_sha256, full.result.weights_sha256);
  EXPECT_NE(head.losses, full.losses);
  EXPECT_NE(head.losses, mixed.losses);
}

using AutocastLossScale = RunTest;
TEST_F(AutocastLossScale, SkipsGrowsAndRecoversAsGradScaler) {
  const SafetensorsFile file = golden("autocast_fp16");
  const AmpRun run = train_amp(file, "fp16", 0.9);
  const Tensor& scales = file.at("scales");
  ASSERT_EQ(run.scales.size(), 200u);
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(run.scales[i], scales.at(std::int64_t(i))) << "before step " << i + 1;
  }
  ASSERT_EQ(run.result.history.size(), 4u);
  for (const EpochRecord& epoch : run.result.history) EXPECT_EQ(epoch.skipped_steps, 1);
  // The first three are named.
  ASSERT_EQ(run.warnings.size(), 3u);
  EXPECT_TRUE(has_words(run.warnings[0],
                        {"step 18 of epoch 1", "skipped at loss scale 1024", "first not finite"}));
  EXPECT_TRUE(has_words(run.warnings[0], {"image"}));
  EXPECT_TRUE(has_words(run.warnings[2], {"step 18 of epoch 3", "further ones are counted only"}));
}

}  // namespace
}  // namespace tr::test
