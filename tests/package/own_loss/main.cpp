// SPDX-License-Identifier: Apache-2.0
// Losses of our own: a network of each, its gradient against finite differences of the reported
// loss. usage: own_loss [cpu|cuda]
#include "losses.h"

#include <cmath>
#include <iostream>

using namespace tr;

namespace {

int faults = 0;

void expect(bool holds, const std::string& what) {
  std::cout << (holds ? "holds: " : "DOES NOT HOLD: ") << what << "\n";
  faults += holds ? 0 : 1;
}

constexpr int kSamples = 8, kFeatures = 6, kOutputs = 3;

DatasetPair data_with(const char* field) {
  const Tensor x = Tensor::uniform({kSamples, kFeatures}, -1, 1, /*seed=*/1);
  const std::vector<std::int32_t> labels = {0, 1, 2, 2, 1, 0, 0, 1};
  const Tensor target = std::string(field) == "label"
                            ? Tensor::from({kSamples}, std::span<const std::int32_t>(labels))
                            : Tensor::uniform({kSamples, kOutputs}, -1, 1, /*seed=*/2);
  const auto set = make_tensor_dataset({{"image", x}, {field, target}}, 0);
  return {set, set};
}

/// A task of one step on all samples by plain SGD, lr 1: a weight moves by its gradient.
DeepLearningTask task_of(const Loss& loss, const char* field, const std::string& device) {
  Session session;
  session.global.manual_seed(3).global_batch_size(kSamples).threads(1);
  session.preprocessor.shuffle_train(false);
  DeepLearningTask task;
  task.session(session)
      .dataset(data_with(field))
      .model(seq(fc(kOutputs, true)))
      .loss(loss)
      .optimizer(SGD())
      .scheduler(ConstantLR().base_lr(1))
      .total_epochs(1)
      .set("device", device);
  return task;
}

double loss_at(const Tensor& weight, const Loss& loss, const char* field,
               const std::string& device) {
  save_safetensors("w.safetensors",
                   {{{"0.weight", weight}, {"0.bias", Tensor::zeros({kOutputs})}}, {}});
  DeepLearningTask task = task_of(loss, field, device);
  task.load_weights("w.safetensors").compile(CompileInfo::NONE);
  return task.evaluate().loss;
}

void check_gradient(const Loss& loss, const char* field, const std::string& device) {
  const Tensor weight = Tensor::uniform({kOutputs, kFeatures}, -1, 1, /*seed=*/4);
  const double before = loss_at(weight, loss, field, device);
  DeepLearningTask task = task_of(loss, field, device);
  task.load_weights("w.safetensors").compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  expect(std::abs(result.history.front().train_loss - before) < 1e-5,
         loss.name() + ": training reports the loss that validation does");
  const Tensor moved = task.fetch("0.weight");
  constexpr float kStep = 1e-2f;
  double worst = 0;
  for (std::int64_t i = 0; i < weight.num_elements(); ++i) {
    double sides[2];
    for (int side = 0; side < 2; ++side) {
      Tensor at = weight.clone();
      at.data<float>()[i] += side == 0 ? kStep : -kStep;
      sides[side] = loss_at(at, loss, field, device);
    }
    const double slope = (sides[0] - sides[1]) / (2 * kStep);
    worst = std::max(worst, std::abs(weight.at(i) - moved.at(i) - slope));
  }
  expect(worst < 5e-4, loss.name() + ": its gradient is that of finite differences (off by " +
                           std::to_string(worst) + ")");
}

void check_refusal(const Value& value, const std::string& words) {
  try {
    DeepLearningTask task = task_of(OwnLoss("wrong", value), "target", "cpu");
    task.compile(CompileInfo::NONE);
    expect(false, "an error with the words: " + words);
  } catch (const InvalidArgument& error) {
    expect(std::string(error.what()).find(words) != std::string::npos,
           "refused: " + std::string(error.what()));
  }
}

/// Digits by the loss of our own.
TrainingResult train(const std::string& device) {
  Session session;
  session.global.manual_seed(1).global_batch_size(100).threads(1);
  session.preprocessor.dataset("procedural").normalization(NormMode::MNIST);
  DeepLearningTask task;
  task.session(session)
      .model(seq(fc(128, true), relu(), fc(10, true)))
      .loss(confidence_penalty(0.1f))
      .optimizer(SGD().momentum(0.9))
      .scheduler(CosineAnnealingLR().base_lr(0.05))
      .total_epochs(2)
      .set("device", device)
      .compile(CompileInfo::NONE);
  return task.run();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string device = argc > 1 ? argv[1] : "cpu";
  try {
    check_gradient(confidence_penalty(0.1f), "label", device);
    check_gradient(root_mean_square(), "target", device);
    check_refusal(sub(model_output(), input("target")), "expected [] (one number)");
    check_refusal(mean({})(fc(2, true)(model_output())), "it has the parameter wrong.0.weight");
    const TrainingResult one = train(device);
    expect(one.best_top1 > 0.9,
           "digits by confidence_penalty reach " + std::to_string(one.best_top1));
    expect(train(device).weights_sha256 == one.weights_sha256, "two runs give the same weights");
  } catch (const Error& error) {
    std::cout << "own_loss: " << error.what() << "\n";
    return 1;
  }
  std::cout << (faults == 0 ? "own losses: all holds\n" : "own losses: faults\n");
  return faults == 0 ? 0 : 1;
}
