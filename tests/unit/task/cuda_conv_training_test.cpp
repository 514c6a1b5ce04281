// SPDX-License-Identifier: Apache-2.0
// Trainings of small residual networks on a GPU: they learn, by fused batch norm, pooling and
// residual sums; equal runs give equal bytes; checkpoints carry the running statistics.
#include <gtest/gtest.h>

#include "support/device.h"
#include "support/temp_folder.h"
#include "toy.h"

namespace tr {
namespace {

using CudaConvTraining = test::DeviceTest<DeviceKind::CUDA>;

constexpr std::int64_t kSide = 16, kChannels = 3, kClasses = 4;

/// Noise with stripes: upright, lying, both, none.
std::shared_ptr<const Dataset> stripes(std::int64_t n, std::uint64_t seed) {
  const Tensor noise = Tensor::uniform({n, kSide, kSide, kChannels}, 0, 160, seed);
  Tensor images({n, kSide, kSide, kChannels}, DType::UINT8);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < images.num_elements(); ++i) {
    const std::int64_t pixel = i / kChannels, x = pixel % kSide, y = pixel / kSide % kSide;
    const std::int64_t label = pixel / (kSide * kSide) % kClasses;
    const bool bright = ((label & 1) != 0 && x % 4 < 2) || ((label & 2) != 0 && y % 4 < 2);
    images.data<std::uint8_t>()[i] = std::uint8_t(noise.data<float>()[i] + (bright ? 60 : 0));
  }
  for (std::int64_t i = 0; i < n; ++i) labels.push_back(std::int32_t(i % kClasses));
  return make_tensor_dataset(
      {{"image", images}, {"label", Tensor::from({n}, std::span<const std::int32_t>(labels))}},
      int(kClasses));
}

/// 16 channels are whole vectors, 12 are not: fused and plain forms both run.
BluePrint network(std::int64_t channels) {
  return seq(cbr(channels, 3, 1, 1), maxpool(2), block(channels, RESNET_3_3),
             block(2 * channels, RESNET_3_3_DS), gap_fc(kClasses, true));
}

DeepLearningTask task_of(const std::string& amp, std::int64_t channels, int epochs) {
  Session session;
  session.global.manual_seed(5).global_batch_size(32).use_gpu("0");
  session.preprocessor.normalization({0.4f, 0.4f, 0.4f}, {0.3f, 0.3f, 0.3f});
  DeepLearningTask task;
  task.model(network(channels))
      .loss(CrossEntropyLoss())
      .optimizer(SGD().momentum(0.9).nesterov().weight_decay(1e-4))
      .scheduler(CosineAnnealingLR().base_lr(0.05))
      .total_epochs(epochs)
      .session(session)
      .dataset({stripes(400, 1), stripes(100, 2)})
      .set("amp", amp);
  return task;
}

TrainingResult run(DeepLearningTask& task) {
  const toy::Quiet quiet;
  task.compile(CompileInfo::NONE);
  return task.run();
}

TEST_F(CudaConvTraining, LearnsAndRepeatsItself) {
  for (const std::int64_t channels : {16, 12}) {
    for (const char* amp : {"off", "fp16", "bf16"}) {
      SCOPED_TRACE(std::string(amp) + ", " + std::to_string(channels) + " channels");
      DeepLearningTask task = task_of(amp, channels, 6), again = task_of(amp, channels, 6);
      const TrainingResult first = run(task);
      EXPECT_GT(first.best_top1, 0.9);
      EXPECT_LT(first.history.back().train_loss, first.history.front().train_loss);
      EXPECT_EQ(run(again).weights_sha256, first.weights_sha256);
    }
  }
}

TEST_F(CudaConvTraining, PrecisionsAgreeInTheFirstEpoch) {
  DeepLearningTask exact = task_of("off", 16, 1), half = task_of("fp16", 16, 1);
  const double want = run(exact).history[0].train_loss, got = run(half).history[0].train_loss;
  // 13 steps from the same weights: each loss errs by 2^-11 of its logits, the weights drift apart.
  EXPECT_NEAR(got, want, 0.05 * want);
}

TEST_F(CudaConvTraining, AResumedRunHasTheBytesOfTheUnbrokenOne) {
  const test::TempFolder folder;
  DeepLearningTask whole = task_of("fp16", 16, 4);
  const std::string want = run(whole).weights_sha256;
  DeepLearningTask first = task_of("fp16", 16, 4);
  Callbacks stop;
  stop.on_epoch = [](DeepLearningTask& task, const EpochRecord& record) {
    if (record.epoch == 2) task.cancel();
  };
  first.save_every(folder.path(), 1).callbacks(stop);
  run(first);
  DeepLearningTask second = task_of("fp16", 16, 4);
  second.save_every(folder.path(), 1).resume();
  EXPECT_EQ(run(second).weights_sha256, want);
}

}  // namespace
}  // namespace tr
