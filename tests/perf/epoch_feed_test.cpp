// SPDX-License-Identifier: Apache-2.0
// What an epoch's feed costs a run: nothing between two epochs, and a verdict where it holds up
// training.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "renaissance/core/log.h"
#include "renaissance/data/datasets.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/task/deep_learning_task.h"
#include "renaissance/task/progress.h"

namespace tr::test {
namespace {

constexpr int kBatch = 100, kSteps = 10, kEpochs = 20;

/// A set whose samples take their time.
class SlowDigits final : public Dataset {
 public:
  explicit SlowDigits(int delay_us)
      : digits_(make_procedural_digits("train", kBatch * kSteps)), delay_us_(delay_us) {}
  std::int64_t num_samples() const override { return digits_->num_samples(); }
  std::vector<Field> fields() const override { return digits_->fields(); }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    if (delay_us_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us_));
    digits_->read(id, out);
  }
  int num_classes() const override { return 10; }
  std::string name() const override { return "slow digits"; }

 private:
  std::shared_ptr<const Dataset> digits_;
  int delay_us_;
};

TrainingResult train(int delay_us, int epochs, std::vector<double>* step_ends_ms) {
  set_progress_sink({});
  set_log_sink([](LogLevel, std::string_view) {});
  Session session;
  session.global.use_cpu().threads(1).global_batch_size(kBatch);
  session.preprocessor.preprocess_workers(1)
      .load_workers(delay_us > 0 ? 2 : 0)
      .normalization(NormMode::MNIST);
  const Stopwatch watch;
  Callbacks callbacks;
  if (step_ends_ms != nullptr) {
    callbacks.on_step = [&, step_ends_ms](DeepLearningTask&, std::int64_t, double, double) {
      step_ends_ms->push_back(watch.ms());
    };
  }
  DeepLearningTask task;
  task.session(session)
      .dataset({std::make_shared<SlowDigits>(delay_us), nullptr})
      .model(delay_us > 0 ? fc(10, true) : seq(fc(512, true), relu(), fc(512, true), fc(10, true)))
      .loss(CrossEntropyLoss())
      .optimizer(SGD())
      .scheduler(ConstantLR().base_lr(0.01))
      .callbacks(std::move(callbacks))
      .total_epochs(epochs);
  task.compile(CompileInfo::NONE);
  return task.run();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

TEST(EpochFeed, BetweenEpochsLessThanAStepPasses) {
  std::vector<double> ends;
  train(0, kEpochs, &ends);
  ASSERT_EQ(ends.size(), std::size_t(kSteps * kEpochs));
  std::vector<double> within, across;  // from the end of one step to the end of the next
  for (std::size_t i = 1; i < ends.size(); ++i)
    (i % kSteps == 0 ? across : within).push_back(ends[i] - ends[i - 1]);
  EXPECT_LT(median(across), 2 * median(within));
}

TEST(EpochFeed, SaysWhetherInputOrComputeHoldsUpTraining) {
  const TrainingResult slow = train(500, 2, nullptr);
  for (const EpochRecord& epoch : slow.history) {
    EXPECT_EQ(epoch.feed.substr(0, 17), "input bound: read") << epoch.feed;
    EXPECT_GE(epoch.read_ms, 0.5 * kBatch * (kSteps - 4));
    EXPECT_GT(epoch.normalise_ms, 0);
    EXPECT_EQ(epoch.decode_ms, 0);
  }
  EXPECT_EQ(slow.feed.substr(0, 17), "input bound: read");
}

}  // namespace
}  // namespace tr::test
