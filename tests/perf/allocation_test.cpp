// SPDX-License-Identifier: Apache-2.0
// After compile() a training step takes no memory: loader, transforms, kernels and records
// included.
#include "support/allocation_counter.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/cpu_info.h"
#include "renaissance/core/log.h"
#include "renaissance/data/datasets.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/task/deep_learning_task.h"
#include "renaissance/task/progress.h"

namespace tr::test {
namespace {

struct Setting {
  std::string amp = "off";
  int ranks = 1;
  int micro_batches = 1;
  bool allocates = false;  // the control: the callback does
};

constexpr std::int64_t kFirst = 10, kLast = 50;

// Allocations of all threads between the ends of two steps.
std::int64_t allocations(const Setting& setting) {
  set_progress_sink({});
  set_log_sink([](LogLevel, std::string_view) {});
  Session session;
  session.global.use_cpu()
      .threads(2)
      .cpu_ranks(setting.ranks)
      .accumulate_steps(setting.micro_batches)
      .global_batch_size(20);
  session.preprocessor.preprocess_workers(2)
      .normalization(NormMode::MNIST)
      .train_transforms(Pad(2), RandomCrop(28), RandomRotation(20.0f, 0), RandomScale(0.8f, 1.2f),
                        RandomErasing(0.5f));
  std::int64_t begin = 0, end = 0;
  Callbacks callbacks;
  callbacks.on_step = [&](DeepLearningTask&, std::int64_t step, double, double) {
    if (step == kFirst) begin = allocation_count();
    if (setting.allocates && step > kFirst) std::make_unique<std::vector<int>>(100);
    if (step == kLast) end = allocation_count();
  };
  DeepLearningTask task;
  task.session(session)
      .dataset({make_procedural_digits("train", 20 * (kLast + 10)), nullptr})
      .model(seq(fc(32, true), relu(), dropout(0.1f), fc(10, true)))
      .loss(CrossEntropyLoss().label_smoothing(0.1f))
      .optimizer(AdamW().weight_decay(0.01))
      .grad_clip(1.0f)
      .use_ema(0.9f)
      .scheduler(CosineAnnealingLR().base_lr(0.002))
      .set("amp", setting.amp)
      .callbacks(std::move(callbacks))
      .total_epochs(1);
  task.compile(CompileInfo::NONE);
  task.run();
  EXPECT_GT(begin, 0);
  return end - begin;
}

// Without AVX-512 oneDNN multiplies, and each of its calls makes small tables of its own.
bool products_are_ours() { return cpu_info().has("avx512f"); }

TEST(Allocation, StepsTakeNoMemory) {
  if (!products_are_ours()) GTEST_SKIP() << "the processor has no AVX-512: oneDNN allocates";
  for (const char* amp : {"off", "fp16", "bf16"}) {
    SCOPED_TRACE(amp);
    EXPECT_EQ(allocations({.amp = amp}), 0);
  }
}

TEST(Allocation, StepsOfRanksAndMicroBatchesTakeNoMemory) {
  if (!products_are_ours()) GTEST_SKIP() << "the processor has no AVX-512: oneDNN allocates";
  EXPECT_EQ(allocations({.ranks = 2, .micro_batches = 2}), 0);
}

TEST(Allocation, TheCounterSeesAStepThatTakesMemory) {
  EXPECT_GE(allocations({.allocates = true}), kLast - kFirst);
}

}  // namespace
}  // namespace tr::test
