// SPDX-License-Identifier: Apache-2.0
// The same seed gives the same bytes, whatever the number of runs, workers, compute threads and
// ranks.
#include "correction/golden_run.h"
#include "renaissance/data/datasets.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "support/compare.h"

namespace tr::test {
namespace {

BluePrint dropout_mlp() {
  return seq(fc(48, true), relu(), dropout(0.2f), fc(32, true), silu(), dropout(0.1f),
             fc(10, true));
}

struct Setting {
  int workers = 1;
  int threads = 1;
  int ranks = 1;
  int micro_batches = 1;
  std::uint64_t seed = 5;
  std::string amp = "off";
};

struct Outcome {
  std::string weights;          // SHA-256
  std::vector<double> numbers;  // losses and accuracies of every epoch
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Two epochs of shuffled, augmented digits with dropout. 230 samples: the last step of an epoch has
// 30 of 40.
Outcome train(const Setting& setting) {
  silence();
  Session session;
  session.global.use_cpu()
      .manual_seed(setting.seed)
      .threads(setting.threads)
      .cpu_ranks(setting.ranks)
      .accumulate_steps(setting.micro_batches)
      .global_batch_size(40);
  session.preprocessor.preprocess_workers(setting.workers)
      .normalization(NormMode::MNIST)
      .train_transforms(Pad(2), RandomCrop(28), RandomRotation(20.0f, 0), RandomScale(0.8f, 1.2f),
                        RandomErasing(0.5f));
  DeepLearningTask task;
  task.session(session)
      .dataset({make_procedural_digits("train", 230), make_procedural_digits("val", 70)})
      .model(dropout_mlp())
      .loss(CrossEntropyLoss().label_smoothing(0.1f))
      .optimizer(AdamW().weight_decay(0.01))
      .scheduler(CosineAnnealingLR().base_lr(0.002).warmup(1))
      .set("amp", setting.amp)
      .total_epochs(2);
  task.compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  Outcome outcome{result.weights_sha256, {}};
  for (const EpochRecord& e : result.history) {
    outcome.numbers.insert(outcome.numbers.end(), {e.train_loss, e.val_loss, e.top1, e.top5, e.lr});
  }
  return outcome;
}

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << outcome.weights;
  for (double number : outcome.numbers) *out << " " << number;
}

TEST(SameBytes, OverRuns) { EXPECT_EQ(train({}), train({})); }

TEST(SameBytes, AnotherSeedGivesOthers) {
  EXPECT_NE(train({.seed = 6}).weights, train({}).weights);
}

TEST(SameBytes, OverWorkers) {
  const Outcome one = train({});
  EXPECT_EQ(train({.workers = 2}), one);
  EXPECT_EQ(train({.workers = 4}), one);
}

TEST(SameBytes, OverComputeThreads) {
  const Outcome one = train({});
  EXPECT_EQ(train({.threads = 2}), one);
  EXPECT_EQ(train({.threads = 3}), one);
}

TEST(SameBytes, OverComputeThreadsUnderMixedPrecision) {
  for (const std::string amp : {"fp16", "bf16"}) {
    EXPECT_EQ(train({.threads = 2, .amp = amp}), train({.amp = amp})) << amp;
  }
}

// Each rank's samples of a step are what one rank has as micro-batches; sums are taken in the same
// order.
TEST(SameBytes, TwoRanksEqualTwoMicroBatches) {
  EXPECT_EQ(train({.ranks = 2}).weights, train({.micro_batches = 2}).weights);
}

TEST(SameBytes, TwoRanksWithTwoMicroBatchesAreTheSameOverRuns) {
  EXPECT_EQ(train({.ranks = 2, .micro_batches = 2}), train({.ranks = 2, .micro_batches = 2}));
}

}  // namespace
}  // namespace tr::test
