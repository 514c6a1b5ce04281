// SPDX-License-Identifier: Apache-2.0
// Ops of our own: their values and gradients against formulas, then a network that uses them.
// usage: own_op cpu|cuda
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>

#include "channel_scale.h"
#include "soft_cap.h"

using namespace tr;

namespace {

int faults = 0;

void expect(bool holds, const std::string& what) {
  std::cout << (holds ? "holds: " : "DOES NOT HOLD: ") << what << "\n";
  faults += holds ? 0 : 1;
}

/// Largest |a - b| of two tensors of floats.
double distance(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.num_elements(); ++i)
    largest = std::max(largest, std::abs(a.at(i) - b.at(i)));
  return a.shape() == b.shape() ? largest : HUGE_VAL;
}

/// Gradient by finite differences of sum(dy * op(inputs)) to input `which`, on the CPU.
Tensor differences(const std::string& op, std::vector<Tensor> inputs, const Attrs& attrs,
                   const Tensor& dy, std::size_t which) {
  constexpr float kStep = 1e-2f;
  Tensor gradient = Tensor::zeros(inputs[which].shape());
  for (std::int64_t i = 0; i < gradient.num_elements(); ++i) {
    double sums[2] = {0, 0};
    for (int side = 0; side < 2; ++side) {
      std::vector<Tensor> moved = inputs;
      moved[which] = inputs[which].clone();
      moved[which].data<float>()[i] += side == 0 ? kStep : -kStep;
      const Tensor y = run_op(op, moved, attrs).front();
      for (std::int64_t j = 0; j < y.num_elements(); ++j) sums[side] += dy.at(j) * y.at(j);
    }
    gradient.data<float>()[i] = float((sums[0] - sums[1]) / (2 * kStep));
  }
  return gradient;
}

void check_op(const std::string& op, const std::vector<Tensor>& inputs, const Attrs& attrs,
              TaskDevice device) {
  const Tensor dy = Tensor::uniform(inputs[0].shape(), -1, 1, /*seed=*/9);
  const std::vector<Tensor> gradients = grad_op(op, inputs, attrs, {dy}, device);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    expect(distance(gradients[i], differences(op, inputs, attrs, dy, i)) < 2e-3,
           op + ": its gradient to input " + std::to_string(i) + " is that of finite differences");
    const std::vector<Tensor> on_cpu = grad_op(op, inputs, attrs, {dy});
    expect(distance(gradients[i], on_cpu[i]) < 1e-5,
           op + ": the CPU's kernel gives the same gradient");
  }
  expect(distance(run_op(op, inputs, attrs, device)[0], run_op(op, inputs, attrs)[0]) < 1e-5,
         op + ": the CPU's kernel gives the same values");
}

void check_values(TaskDevice device) {
  const Tensor x = Tensor::uniform({5, 33}, -4, 4, /*seed=*/1);
  const Tensor y = run_op("soft_cap", {x}, {{"cap", 2.0}}, device).front();
  Tensor want = x.clone();
  for (float& v : std::span(want.data<float>(), std::size_t(want.num_elements())))
    v = 2 * std::tanh(v / 2);
  expect(distance(y, want) < 1e-5, "soft_cap is 2 tanh(x / 2)");
  for (const DType low : {DType::FP16, DType::BF16}) {
    const Tensor rounded = run_op("soft_cap", {x.to(low)}, {{"cap", 2.0}}, device).front();
    expect(rounded.dtype() == low && distance(rounded.to(DType::FP32), want) < 0.03,
           "soft_cap in " + std::string(name_of(low)));
  }
  check_op("soft_cap", {Tensor::uniform({3, 7}, -2, 2, 2)}, {{"cap", 1.5}}, device);
  check_op("channel_scale", {Tensor::uniform({4, 3, 5}, -2, 2, 3), Tensor::uniform({5}, -2, 2, 4)},
           {}, device);
}

template <typename F>
void expect_refusal(F call, const std::string& words) {
  try {
    call();
    expect(false, "an error with the words: " + words);
  } catch (const InvalidArgument& error) {
    expect(std::string(error.what()).find(words) != std::string::npos,
           "refused: " + std::string(error.what()));
  }
}

void check_refusals() {
  expect_refusal([] { register_soft_cap(); }, "registered twice");
  expect_refusal(
      [] {
        run_op("soft_cap", {Tensor::zeros({2})}, {{"cap", -1.0}});
      },
      "expected above 0");
  expect_refusal([] { run_op("soft_cap", {Tensor::zeros({2})}, {{"cup", 1.0}}); }, "cap");
  expect_refusal(
      [] {
        run_op("channel_scale", {Tensor::zeros({2, 3}), Tensor::zeros({2})});
      },
      "expected [3]");
}

/// Trains with the ops in the network; the weights' hash says whether two runs are the same.
TrainingResult train(const std::string& device, const std::string& amp, int threads) {
  Session session;
  session.global.manual_seed(1).global_batch_size(100).threads(threads);
  session.preprocessor.dataset("procedural").normalization(NormMode::MNIST);
  std::vector<BluePrint> layers = {flatten(), fc(128, true), soft_cap(3.0), fc(10, true)};
  if (amp == "off") layers.insert(layers.begin() + 1, channel_scale());
  DeepLearningTask task;
  task.session(session)
      .model(seq(layers))
      .optimizer(SGD().momentum(0.9))
      .scheduler(CosineAnnealingLR().base_lr(0.05))
      .total_epochs(2)
      .set("device", device)
      .set("amp", amp)
      .compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  if (amp == "off") {
    const Tensor scale = task.fetch("1.scale");
    expect(distance(scale, Tensor::full(scale.shape(), 1)) > 1e-3, "the op's parameter has learnt");
  }
  return result;
}

void check_training(const std::string& device) {
  const TrainingResult one = train(device, "off", 1);
  expect(one.best_top1 > 0.9, "a network with both ops reaches " + std::to_string(one.best_top1));
  expect(train(device, "off", 2).weights_sha256 == one.weights_sha256,
         "two runs give the same weights");
  expect(train(device, "bf16", 1).best_top1 > 0.9, "it trains in bf16");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string device = argc > 1 ? argv[1] : "cpu";
  try {
    register_soft_cap();
    register_channel_scale();
    check_values({.kind = device == "cuda" ? DeviceKind::CUDA : DeviceKind::CPU});
    check_refusals();
    check_training(device);
  } catch (const Error& error) {
    std::cout << "own_op: " << error.what() << "\n";
    return 1;
  }
  std::cout << (faults == 0 ? "own ops: all holds\n" : "own ops: faults\n");
  return faults == 0 ? 0 : 1;
}
