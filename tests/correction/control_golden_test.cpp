// SPDX-License-Identifier: Apache-2.0
// Runs with several losses, optimizers or parts that stand still, against PyTorch's. One program
// for each device: TR_TEST_DEVICE is its DeviceKind.
#include "algo/schedule.h"
#include "correction/golden_run.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/math.h"
#include "renaissance/ops/reduction.h"
#include "renaissance/ops/sequence.h"
#include "renaissance/ops/shape.h"
#include "support/compare.h"
#include "support/temp_folder.h"

namespace tr::test {
namespace {

class ControlGolden : public RunTest {};

/// A task over the file's fields from its initial weights; `losses` gets that of each step.
struct GoldenTask {
  SafetensorsFile file;
  TempFolder folder;
  std::vector<float> losses;
  DeepLearningTask task;

  GoldenTask(const std::string& name, std::int64_t batch) : file(golden("control_" + name)) {
    silence();
    RunOptions options;
    options.batch = batch;
    SafetensorsFile initial;
    std::vector<NamedTensor> fields;  // no number of classes: a label may be one that is ignored
    for (const NamedTensor& entry : file.tensors) {
      if (entry.name.starts_with("initial."))
        initial.tensors.push_back({entry.name.substr(8), entry.tensor});
      if (entry.name.starts_with("field.")) fields.push_back({entry.name.substr(6), entry.tensor});
    }
    save_safetensors(folder.path("w.safetensors"), initial);
    Callbacks callbacks;
    callbacks.on_step = [this](DeepLearningTask&, std::int64_t, double loss, double) {
      losses.push_back(float(loss));
    };
    task.session(session_of(options))
        .dataset({make_tensor_dataset(fields, 0), nullptr})
        .total_epochs(1)
        .load_weights(folder.path("w.safetensors"))
        .callbacks(std::move(callbacks));
  }

  void expect_equals_pytorch(bool normalising) {
    task.compile(CompileInfo::NONE);
    task.run();
    const Tensor got = Tensor::from({std::int64_t(losses.size())}, losses);
    const Tolerance close = run_tolerance(got.num_elements(), normalising);
    EXPECT_TRUE(is_close(got, file.at("losses"), close, "losses"));
    int compared = 0;
    for (const NamedTensor& entry : file.tensors) {
      if (!entry.name.starts_with("final.")) continue;
      const std::string name = entry.name.substr(6);
      EXPECT_TRUE(is_close(task.fetch(name), entry.tensor, close, name));
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }
};

BluePrint net_of_two() { return seq(seq(fc(12, true), tanh(), fc(5, true)).named("net")); }

BluePrint gan_model() {
  const Value real = input("image"), noise = input("noise");
  const BluePrint maker = seq(fc(16, true), tanh(), fc(6, true)).named("generator");
  const BluePrint critic = shared(seq(fc(16, true), silu(), fc(1, true)).named("critic"));
  const Value made = maker(noise);
  return model({real, noise}, {critic(real), critic(stop_gradient()(made)), critic(made)});
}

std::vector<Objective> gan_objectives() {
  const Scheduler fast = ConstantLR().base_lr(0.01), slow = ConstantLR().base_lr(0.05);
  return {{"critic.",
           Loss(BCEWithLogitsLoss().output(0).target_value(1)) +
               BCEWithLogitsLoss().output(1).target_value(0),
           Adam().beta1(0.5), fast},
          {"generator.", BCEWithLogitsLoss().output(2).target_value(1), SGD().momentum(0.9), slow}};
}

TEST_F(ControlGolden, FiftyAlternatingStepsOfAGanEqualPyTorch) {
  GoldenTask run("gan", 8);
  run.task.model(gan_model()).objectives(gan_objectives());
  run.expect_equals_pytorch(true);
}

TEST_F(ControlGolden, TheOtherOrderOfObjectivesIsAnotherRun) {
  GoldenTask run("gan", 8);
  std::vector<Objective> turned = gan_objectives();
  std::swap(turned[0], turned[1]);
  run.task.model(gan_model()).objectives(turned);
  run.task.compile(CompileInfo::NONE);
  run.task.run();
  const std::string name = "critic.0.weight";
  EXPECT_FALSE(
      is_close(run.task.fetch(name), run.file.at("final." + name), run_tolerance(50, true)));
}

TEST_F(ControlGolden, AStudentLearnsFromATeacherThatStandsStill) {
  GoldenTask run("teacher", 10);
  const Value x = input("image");
  const BluePrint teacher = seq(fc(12, true), tanh(), fc(5, true)).named("teacher");
  const BluePrint student = seq(std::vector<BluePrint>{fc(5, true)}).named("student");
  run.task.model(model(std::vector<Value>{x}, {student(x), teacher(x)}))
      .loss(Loss(CrossEntropyLoss()) + 0.7 * Loss(KLDivLoss().target_output(1).logits(2)))
      .optimizer(SGD().momentum(0.9))
      .scheduler(ConstantLR().base_lr(0.05))
      .freeze("teacher.");
  run.expect_equals_pytorch(false);
}

TEST_F(ControlGolden, ClassWeightsAndIgnoredLabelsEqualPyTorch) {
  GoldenTask run("weighted", 10);
  run.task.model(net_of_two())
      .loss(CrossEntropyLoss().class_weights({0.5f, 1, 2, 0.25f, 3}).ignore_index(-7))
      .optimizer(AdamW())
      .scheduler(ConstantLR().base_lr(0.01));
  run.expect_equals_pytorch(true);
}

// Rates and momenta that go against each other; SGD's own momentum counts for nothing.
TEST_F(ControlGolden, OneCycleMovesTheMomentumAsPyTorchDoes) {
  const auto cycle = [] { return OneCycleLR().base_lr(0.05).cycle_momentum(0.8, 0.95); };
  const auto expect = [&](const std::string& name, const Optimizer& optimizer,
                          const Scheduler& scheduler, bool normalising) {
    GoldenTask run("cycle_" + name, 10);
    const Tensor momenta = run.file.at("momenta");
    Array got(momenta.shape());
    for (std::int64_t i = 0; i < 40; ++i) got[i] = momentum_at(scheduler, i, 40, 1).value();
    EXPECT_TRUE(is_close(tensor_of(got), array_of(momenta), tolerance(DType::FP32), name));
    run.task.model(net_of_two()).loss(CrossEntropyLoss()).optimizer(optimizer).scheduler(scheduler);
    run.expect_equals_pytorch(normalising);
  };
  expect("sgd", SGD().momentum(0.5).nesterov(), cycle(), false);
  expect("adamw", AdamW().weight_decay(0.01), cycle().three_phase(), true);
}

TEST_F(ControlGolden, WithoutTheCycleTheRunIsAnother) {
  GoldenTask run("cycle_sgd", 10);
  run.task.model(net_of_two())
      .loss(CrossEntropyLoss())
      .optimizer(SGD().momentum(0.95).nesterov())
      .scheduler(OneCycleLR().base_lr(0.05));
  run.task.compile(CompileInfo::NONE);
  run.task.run();
  const std::string name = "net.0.weight";
  EXPECT_FALSE(
      is_close(run.task.fetch(name), run.file.at("final." + name), run_tolerance(40, false)));
}

TEST_F(ControlGolden, AnOwnLossOfSamplesEqualsAModuleOfPyTorch) {
  const Value logp = log_softmax()(model_output());
  const Value picked = gather(logp, reshape({1})(input("label")), 1);
  const Value entropy = neg()(sum({1})(mul(exp()(logp), logp)));
  const Value each = sub(neg()(sum({1})(picked)), affine(0.1f)(entropy));
  GoldenTask run("own_samples", 10);
  run.task.model(net_of_two())
      .loss(OwnLoss("confident", each).class_scores())
      .optimizer(SGD().momentum(0.9))
      .scheduler(ConstantLR().base_lr(0.05));
  run.expect_equals_pytorch(false);
}

TEST_F(ControlGolden, AnOwnLossOfABatchEqualsAModuleOfPyTorch) {
  const Value y = model_output();
  const Value root = sqrt()(mean({})(square()(sub(y, input("target")))));
  GoldenTask run("own_batch", 10);
  run.task.model(net_of_two())
      .loss(OwnLoss("root_mean_square", add(root, affine(0.05f)(mean({})(abs()(y))))))
      .optimizer(AdamW())
      .scheduler(ConstantLR().base_lr(0.01));
  run.expect_equals_pytorch(true);
}

}  // namespace
}  // namespace tr::test
