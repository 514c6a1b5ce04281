// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/nearest_name.h"
#include "renaissance/zoo/zoo.h"

namespace tr::zoo {

namespace {

struct Row {
  Recipe recipe;
  void (*apply)(Session& session, DeepLearningTask& task);
};

void mnist(Session& session, DeepLearningTask& task, int warmup_epochs) {
  session.global.global_batch_size(200).input_resolution(28);
  session.preprocessor.dataset("mnist").normalization(NormMode::MNIST);
  task.loss(CrossEntropyLoss().label_smoothing(0.1f))
      .total_epochs(10)
      .optimizer(AdamW().weight_decay(1e-4))
      .scheduler(CosineAnnealingLR().base_lr(0.001).warmup(warmup_epochs));
}

void mnist_plain(Session& session, DeepLearningTask& task) { mnist(session, task, 0); }

void mnist_augmented(Session& session, DeepLearningTask& task) {
  mnist(session, task, 5);
  session.preprocessor.train_transforms(Pad(2), RandomCrop(28), RandomRotation(20.0f, 0),
                                        RandomScale(0.8f, 1.2f), RandomErasing(0.5f));
}

/// He et al. 2015 for CIFAR, with the schedule of Goyal et al. 2017 (arXiv:1706.02677) by steps,
/// smoothed labels, and a small rectangle erased from half of the pictures (DeVries, Taylor 2017,
/// arXiv:1708.04552).
void cifar10(Session& session, DeepLearningTask& task) {
  session.global.global_batch_size(256).input_resolution(32);
  session.preprocessor.dataset("cifar-10")
      .normalization(NormMode::CIFAR)
      .train_transforms(Pad(4), RandomCrop(32), RandomHorizontalFlip(),
                        RandomErasing(0.5f, {0.03f, 0.15f}, {0.5f, 2.0f}));
  task.loss(CrossEntropyLoss().label_smoothing(0.1f))
      .total_epochs(60)
      .optimizer(SGD().momentum(0.9).nesterov(true).weight_decay(5e-4))
      .scheduler(CosineAnnealingLR().base_lr(0.2).warmup(5).step_by_batch());
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {{"mnist-mlp", "the first article's network and augmentation, fp32", "mnist-mlp", "mnist"},
       mnist_augmented},
      {{"mnist-mlp-plain", "the same network without augmentation, cosine without warm-up",
        "mnist-mlp", "mnist"},
       mnist_plain},
      {{"cifar10-resnet18", "ResNet-18 for 32x32 pictures, SGD and cosine by steps, 60 epochs",
        "cifar_resnet18", "cifar-10"},
       cifar10}};
  return all;
}

}  // namespace

std::vector<Recipe> recipes() {
  std::vector<Recipe> all;
  for (const Row& row : rows()) all.push_back(row.recipe);
  return all;
}

void apply_recipe(const std::string& name, Session& session, DeepLearningTask& task) {
  std::vector<std::string> names;
  for (const Row& row : rows()) {
    if (row.recipe.name == name) {
      task.model(make_model(row.recipe.model).blueprint);
      row.apply(session, task);
      return;
    }
    names.push_back(row.recipe.name);
  }
  throw_as<InvalidArgument>("{}", unknown_name_message("recipe", name, names));
}

}  // namespace tr::zoo
