// SPDX-License-Identifier: Apache-2.0
// Every optimizer in whole runs, beside everything that stands beside it: frozen parts, averages,
// micro-batches, clipping, mixed precision, overflows, checkpoints.
#include <algorithm>

#include "correction/golden_run.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "support/compare.h"
#include "support/temp_folder.h"

namespace tr::test {
namespace {

constexpr std::int64_t kSamples = 336, kBatch = 14;

std::shared_ptr<const Dataset> samples(std::int64_t bad_batch = -1) {
  Tensor x = Tensor::uniform({kSamples, 12}, -1, 1, 1);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const float* row = x.data<float>() + i * 12;
    labels.push_back(std::int32_t(std::max_element(row, row + 4) - row));
  }
  for (std::int64_t i = 0; bad_batch >= 0 && i < kBatch * 12; ++i) {
    x.data<float>()[bad_batch * kBatch * 12 + i] *= 1e6f;
  }
  return make_tensor_dataset({{"image", x}, {"label", Tensor::from({kSamples}, labels)}}, 4);
}

struct Row {
  std::string name;
  Optimizer optimizer;
  double lr;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<Row> rows() {
  return {{"sgd", SGD().momentum(0.9).weight_decay(1e-4), 0.1},
          {"adamw", AdamW().weight_decay(1e-2), 0.02},
          {"lion", Lion().weight_decay(1e-2), 0.003},
          {"rmsprop", RMSprop().momentum(0.5).centered(), 0.003},
          {"adagrad", Adagrad().lr_decay(1e-3), 0.1},
          {"lars", LARS().momentum(0.9).trust_coefficient(0.05).weight_decay(1e-3), 0.5},
          {"lars_paper",
           LARS().momentum(0.9).trust_coefficient(0.05).weight_decay(1e-3).rate_in_momentum(), 0.5},
          {"lamb", LAMB().weight_decay(1e-2), 0.02},
          {"muon", Muon().weight_decay(1e-2).not_matrices({"4."}), 0.02}};
}

class OptimizerRun : public testing::TestWithParam<Row> {
 protected:
  DeepLearningTask task(const std::string& amp, int epochs, int threads = 1,
                        std::int64_t bad_batch = -1) const {
    silence();
    RunOptions options;
    options.amp = amp;
    options.threads = threads;
    options.batch = kBatch;
    DeepLearningTask made;
    made.session(session_of(options))
        .dataset({samples(bad_batch), nullptr})
        .model(seq(fc(24, true), relu(), fc(16, true), silu(), fc(4, true)))
        .loss(CrossEntropyLoss())
        .optimizer(GetParam().optimizer)
        .scheduler(ConstantLR().base_lr(GetParam().lr))
        .total_epochs(epochs);
    return made;
  }
};

TEST_P(OptimizerRun, LearnsInEveryPrecision) {
  double losses[3];
  const char* const precisions[] = {"", "fp16", "bf16"};
  for (int i = 0; i < 3; ++i) {
    DeepLearningTask made = task(precisions[i], 12);
    made.use_ema(0.9f).grad_clip(5, ClipKind::NORM);
    made.set("accumulate_steps", "2").set("loss_scale_growth", "50").compile(CompileInfo::NONE);
    const TrainingResult result = made.run();
    losses[i] = result.history.back().train_loss;
    EXPECT_LT(losses[i], 0.75 * result.history.front().train_loss) << precisions[i];
  }
  EXPECT_NEAR(losses[1], losses[0], 0.1);
  EXPECT_NEAR(losses[2], losses[0], 0.15);
}

TEST_P(OptimizerRun, WhatIsFrozenStandsStillAndTheRestMoves) {
  DeepLearningTask made = task("fp16", 2);
  made.freeze("0.").compile(CompileInfo::NONE);
  const Tensor weight = made.fetch("0.weight"), bias = made.fetch("0.bias"),
               head = made.fetch("4.weight");
  made.run();
  EXPECT_TRUE(same_bytes(made.fetch("0.weight"), weight));
  EXPECT_TRUE(same_bytes(made.fetch("0.bias"), bias));
  EXPECT_FALSE(same_bytes(made.fetch("4.weight"), head));
}

TEST_P(OptimizerRun, ThreadsDoNotChangeAByte) {
  DeepLearningTask one = task("", 2, 1), three = task("", 2, 3);
  EXPECT_EQ(three.compile(CompileInfo::NONE).run().weights_sha256,
            one.compile(CompileInfo::NONE).run().weights_sha256);
}

TEST_P(OptimizerRun, AResumedRunHasTheBytesOfTheUnbrokenOne) {
  const TempFolder folder;
  DeepLearningTask whole = task("bf16", 4);
  const std::string want = whole.compile(CompileInfo::NONE).run().weights_sha256;
  DeepLearningTask first = task("bf16", 2);
  first.save_every(folder.path()).compile(CompileInfo::NONE).run();
  DeepLearningTask rest = task("bf16", 4);
  rest.save_every(folder.path()).resume().compile(CompileInfo::NONE);
  EXPECT_EQ(rest.run().weights_sha256, want);
}

TEST_P(OptimizerRun, AnOverflowLeavesNoTrace) {
  // The last batch of the only epoch: the weights are those of the step before.
  DeepLearningTask made = task("fp16", 1, 1, kSamples / kBatch - 1);
  std::vector<NamedTensor> before;
  std::int64_t steps = 0;
  const std::vector<std::string> names = {"0.weight", "2.bias", "4.weight"};
  Callbacks callbacks;
  callbacks.on_step = [&](DeepLearningTask& t, std::int64_t step, double, double) {
    steps = step;
    if (step != kSamples / kBatch - 1) return;
    for (const std::string& name : names) before.push_back({name, t.fetch(name)});
    const int moments = GetParam().optimizer.kind == Optimizer::Kind::RMSPROP ? 3 : 1;
    for (int m = 1; m <= moments; ++m) {
      const std::string range = "range(moment" + std::to_string(m) + ")";
      before.push_back({range, t.fetch(range)});
    }
  };
  made.callbacks(std::move(callbacks)).compile(CompileInfo::NONE);
  const TrainingResult result = made.run();
  EXPECT_EQ(steps, kSamples / kBatch);
  EXPECT_EQ(result.history[0].skipped_steps, 1);
  ASSERT_GE(before.size(), 4u);
  for (const NamedTensor& tensor : before) {
    EXPECT_TRUE(same_bytes(made.fetch(tensor.name), tensor.tensor)) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerRun, testing::ValuesIn(rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tr::test
