// SPDX-License-Identifier: Apache-2.0
// Runs with several losses, optimizers or parts that stand still, against PyTorch's. One program
// for each device: TR_TEST_DEVICE is its DeviceKind.
#include "correction/golden_run.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/temp_folder.h"

namespace tr::test {
namespace {

constexpr DeviceKind kDevice = DeviceKind::TR_TEST_DEVICE;

class ControlGolden : public DeviceTest<kDevice> {};

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
    Session session = session_of(options);
    if (kDevice == DeviceKind::CUDA) session.global.use_gpu("0");
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
    task.session(session)
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
  run.task.model(seq(seq(fc(12, true), tanh(), fc(5, true)).named("net")))
      .loss(CrossEntropyLoss().class_weights({0.5f, 1, 2, 0.25f, 3}).ignore_index(-7))
      .optimizer(AdamW())
      .scheduler(ConstantLR().base_lr(0.01));
  run.expect_equals_pytorch(true);
}

}  // namespace
}  // namespace tr::test
