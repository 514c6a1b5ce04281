// SPDX-License-Identifier: Apache-2.0
// Every optimizer in whole runs, beside everything that stands beside it: frozen parts, averages,
// micro-batches, clipping, mixed precision, overflows, checkpoints. One program for each device:
// TR_TEST_DEVICE is its DeviceKind.
#include <algorithm>
#include <sstream>

#include "correction/optimizer_runs.h"
#include "renaissance/core/log.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "support/compare.h"
#include "support/log_capture.h"
#include "support/temp_folder.h"

namespace tr::test {
namespace {

class OptimizerRun : public OptimizerRunTest {};

/// Between mean losses of a run and of one whose sums are taken in another order.
double band_of_another_order(const Optimizer& optimizer, double loss) {
  const bool on_gpu = kRunDevice != DeviceKind::CPU;
  if (optimizer.kind == Optimizer::Kind::SHAMPOO || optimizer.kind == Optimizer::Kind::SOAP)
    return free_run_band(loss) * (on_gpu ? kSplitOperands : 1);
  if (optimizer.kind == Optimizer::Kind::MUON && on_gpu) return free_run_band(loss);
  const Tolerance close = run_tolerance(kRunSamples / kRunBatch, true);
  return close.atol + close.rtol * loss;
}

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

TEST_P(OptimizerRun, WhatIsUnfrozenLaterMoves) {
  DeepLearningTask made = task("", 2);
  std::vector<Tensor> seen = {};
  Callbacks callbacks;
  callbacks.on_epoch = [&](DeepLearningTask& t, const EpochRecord&) {
    seen.push_back(t.fetch("0.weight"));
  };
  made.freeze("0.", 1, 1).callbacks(std::move(callbacks)).compile(CompileInfo::NONE);
  const Tensor first = made.fetch("0.weight");
  const TrainingResult result = made.run();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_TRUE(same_bytes(seen[0], first));
  EXPECT_FALSE(same_bytes(seen[1], first));
  EXPECT_LT(result.history.back().train_loss, result.history.front().train_loss);
}

// Biases take no decay, weights do; a group may say otherwise.
TEST_P(OptimizerRun, DecayActsOnWeightsAloneUnlessAGroupSaysSo) {
  const auto after = [&](std::int64_t steps, double decay, const std::vector<ParamGroup>& groups) {
    DeepLearningTask made = task("", 1);
    Optimizer optimizer = GetParam().optimizer;
    optimizer.weight_decay = decay;
    std::vector<Tensor> tensors;
    Callbacks callbacks;
    callbacks.on_step = [&](DeepLearningTask& t, std::int64_t step, double, double) {
      if (step == steps) tensors = {t.fetch("0.bias"), t.fetch("0.weight")};
    };
    made.optimizer(optimizer).param_groups(groups).callbacks(std::move(callbacks));
    made.compile(CompileInfo::NONE).run();
    return tensors;
  };
  const auto plain = after(1, 0, {}), decayed = after(1, 0.1, {});
  EXPECT_TRUE(same_bytes(decayed[0], plain[0]));
  const auto later = after(2, 0, {});
  EXPECT_FALSE(same_bytes(after(2, 0.1, {})[1], later[1]));
  EXPECT_FALSE(
      same_bytes(after(2, 0, {{.kinds = ParamKinds::BIASES, .weight_decay = 0.1}})[0], later[0]));
  const auto none = after(2, 0.1, {{.weight_decay = 0}});
  EXPECT_TRUE(same_bytes(none[0], later[0]));
  EXPECT_TRUE(same_bytes(none[1], later[1]));
}

TEST_P(OptimizerRun, AGroupWithoutARateStandsStill) {
  DeepLearningTask made = task("", 1);
  made.param_groups({{.match = "2.", .lr_scale = 0}}).compile(CompileInfo::NONE);
  const Tensor still = made.fetch("2.weight"), first = made.fetch("0.weight");
  made.run();
  EXPECT_TRUE(same_bytes(made.fetch("2.weight"), still));
  EXPECT_FALSE(same_bytes(made.fetch("0.weight"), first));
}

TEST_P(OptimizerRun, AveragesAreThoseOfTheWeights) {
  constexpr float kDecay = 0.9f;
  DeepLearningTask made = task("", 1);
  Tensor average;
  Callbacks callbacks;
  callbacks.on_step = [&](DeepLearningTask& t, std::int64_t, double, double) {
    const Tensor now = t.fetch("0.weight");
    float* e = average.data<float>();
    for (std::int64_t i = 0; i < now.num_elements(); ++i)
      e[i] = kDecay * e[i] + (1 - kDecay) * now.data<float>()[i];
  };
  made.use_ema(kDecay).callbacks(std::move(callbacks)).compile(CompileInfo::NONE);
  average = made.fetch("0.weight");
  made.run();
  EXPECT_TRUE(is_close(made.fetch("ema/0.weight"), average, tolerance(DType::FP32, 24)));
}

// A limit that no gradient reaches changes nothing; one that all do, something.
TEST_P(OptimizerRun, ClippingActsBeforeTheOptimizer) {
  const auto weights = [&](float limit, ClipKind kind) {
    DeepLearningTask made = task("", 1);
    if (limit > 0) made.grad_clip(limit, kind);
    return made.compile(CompileInfo::NONE).run().weights_sha256;
  };
  const std::string none = weights(0, ClipKind::NORM);
  EXPECT_EQ(weights(1e6f, ClipKind::NORM), none);
  EXPECT_EQ(weights(1e6f, ClipKind::VALUE), none);
  EXPECT_NE(weights(1e-3f, ClipKind::VALUE), none);
  EXPECT_NE(weights(0.1f, ClipKind::NORM), none);
}

// The order of sums is another.
TEST_P(OptimizerRun, MicroBatchesAreNearlyTheWholeBatch) {
  const auto mean_loss = [&](const char* parts, const char* batch) {
    DeepLearningTask made = task("", 1);
    made.set("local_batch_size", batch).set("accumulate_steps", parts).compile(CompileInfo::NONE);
    return made.run().history[0].train_loss;
  };
  const double want = mean_loss("1", "14");
  EXPECT_NEAR(mean_loss("2", "7"), want, band_of_another_order(GetParam().optimizer, want));
}

TEST_P(OptimizerRun, AResumedRunHasTheBytesOfTheUnbrokenOne) {
  const TempFolder folder;
  // With everything that stands beside an optimizer and has state, or another graph in some epochs.
  const auto with_all = [&](int epochs) {
    DeepLearningTask made = task("bf16", epochs);
    made.use_ema(0.9f).grad_clip(1, ClipKind::NORM).freeze("2.", 2, 3);
    made.param_groups({{.match = "0.", .lr_scale = 0.5, .weight_decay = 0.01}});
    made.set("accumulate_steps", "2");
    return made;
  };
  DeepLearningTask whole = with_all(4);
  const std::string want = whole.compile(CompileInfo::NONE).run().weights_sha256;
  DeepLearningTask first = with_all(2);
  first.save_every(folder.path()).compile(CompileInfo::NONE).run();
  DeepLearningTask rest = with_all(4);
  rest.save_every(folder.path()).resume().compile(CompileInfo::NONE);
  EXPECT_EQ(rest.run().weights_sha256, want);
  EXPECT_TRUE(same_bytes(rest.fetch("ema/2.weight"), whole.fetch("ema/2.weight")));
  const std::string second = "range(moment1)";
  EXPECT_TRUE(same_bytes(rest.fetch(second), whole.fetch(second)));
}

TEST_P(OptimizerRun, AnOverflowLeavesNoTrace) {
  // The last batch of the only epoch: the weights are those of the step before.
  DeepLearningTask made = task("fp16", 1, 1, kRunSamples / kRunBatch - 1);
  std::vector<NamedTensor> before;
  std::int64_t steps = 0;
  const std::vector<std::string> names = {"0.weight", "2.bias", "4.weight"};
  Callbacks callbacks;
  callbacks.on_step = [&](DeepLearningTask& t, std::int64_t step, double, double) {
    steps = step;
    if (step != kRunSamples / kRunBatch - 1) return;
    for (const std::string& name : names) before.push_back({name, t.fetch(name)});
    const int moments = GetParam().optimizer.kind == Optimizer::Kind::RMSPROP ? 3 : 1;
    for (int m = 1; m <= moments; ++m) {
      const std::string range = "range(moment" + std::to_string(m) + ")";
      before.push_back({range, t.fetch(range)});
    }
    const Optimizer::Kind kind = GetParam().optimizer.kind;
    if (kind == Optimizer::Kind::SHAMPOO || kind == Optimizer::Kind::SOAP)
      before.push_back({"optimizer_state", t.fetch("optimizer_state")});
  };
  made.callbacks(std::move(callbacks)).compile(CompileInfo::NONE);
  const TrainingResult result = made.run();
  EXPECT_EQ(steps, kRunSamples / kRunBatch);
  EXPECT_EQ(result.history[0].skipped_steps, 1);
  ASSERT_GE(before.size(), 4u);
  for (const NamedTensor& tensor : before) {
    EXPECT_TRUE(same_bytes(made.fetch(tensor.name), tensor.tensor)) << tensor.name;
  }
}

using OptimizerState = RunTest;

/// Bytes of the region of that role in the plan that compile() logs; 0: there is none.
std::int64_t region_bytes(DeepLearningTask& task, const std::string& role) {
  const LogCapture captured;
  task.compile(CompileInfo::MEMORY_PLAN);
  const std::string log = captured.text();
  const std::size_t at = log.find("  " + role);
  if (at == std::string::npos) return 0;
  std::istringstream line(log.substr(at, log.find('\n', at) - at));
  std::string name, dtype;
  std::int64_t bucket = 0, offset = 0, bytes = 0;
  line >> name >> dtype >> bucket >> offset >> bytes;
  return bytes;
}

// fc(24), fc(16) and fc(4) behind 12 numbers; the head is no matrix where a row says so.
TEST_F(OptimizerState, StandsInTheMemoryPlan) {
  const auto task = [](const Optimizer& optimizer) {
    DeepLearningTask made;
    made.session(session_of({.batch = kRunBatch}))
        .dataset({run_samples(), nullptr})
        .model(seq(fc(24, true), relu(), fc(16, true), silu(), fc(4, true)))
        .optimizer(optimizer);
    return made;
  };
  silence();
  DeepLearningTask adam = task(AdamW()), soap = task(SOAP().not_matrices({"4."}));
  EXPECT_EQ(region_bytes(adam, "optimizer_state"), 0);
  // Two matrices: 16 and 2 (24^2 + 12^2), 16 and 2 (16^2 + 24^2) floats; a multiple of 256 bytes.
  constexpr std::int64_t kElements = 32 + 2 * (576 + 144) + 2 * (256 + 576);
  EXPECT_EQ(region_bytes(soap, "optimizer_state"), 4 * kElements);
  EXPECT_EQ(soap.fetch("optimizer_state").num_elements(), kElements);
}

// An input that is always 0 has no gradient: its weights stay where they are, to the bit.
TEST_F(OptimizerState, WhatNeverHasAGradientNeverMoves) {
  silence();
  Tensor x = Tensor::uniform({kRunSamples, 12}, -1, 1, 1);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < kRunSamples; ++i) {
    float* row = x.data<float>() + i * 12;
    labels.push_back(std::int32_t(std::max_element(row, row + 4) - row));
    row[5] = row[11] = 0;
  }
  const auto set =
      make_tensor_dataset({{"image", x}, {"label", Tensor::from({kRunSamples}, labels)}}, 4);
  for (const Optimizer& optimizer :
       {Optimizer(SOAP().precondition_every(3)), Optimizer(Shampoo().precondition_every(3))}) {
    DeepLearningTask made;
    made.session(session_of({.batch = kRunBatch}))
        .dataset({set, nullptr})
        .model(seq(fc(24, true), relu(), fc(4, true)))
        .optimizer(optimizer)
        .scheduler(ConstantLR().base_lr(0.02))
        .total_epochs(2)
        .compile(CompileInfo::NONE);
    const Tensor before = made.fetch("0.weight");
    made.run();
    const Tensor after = made.fetch("0.weight");
    for (std::int64_t i = 0; i < after.num_elements(); ++i) {
      const bool dead = i % 12 == 5 || i % 12 == 11;
      EXPECT_EQ(after.at(i) == before.at(i), dead) << name_of(optimizer.kind) << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerRun, testing::ValuesIn(optimizer_rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tr::test
