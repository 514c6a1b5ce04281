// SPDX-License-Identifier: Apache-2.0

#include <iostream>

#include "renaissance.h"

using namespace tr;

int main() {
  GLOBAL_SETTING.use_cpu().manual_seed(1).global_batch_size(100);
  PREPROCESSOR_SETTING.dataset("procedural").normalization(NormMode::MNIST);

  BluePrint mlp = seq(fc(256, true), relu(), fc(128, true), relu(), fc(10, true));

  DeepLearningTask task;
  task.model(mlp)
      .loss(CrossEntropyLoss().label_smoothing(0.1f))
      .optimizer(SGD().momentum(0.9).nesterov())
      .scheduler(CosineAnnealingLR().base_lr(0.05).warmup(1))
      .total_epochs(3)
      .compile();
  std::cout << "best top-1: " << task.run().best_top1 << "\n";
  task.save_weights("mlp.safetensors");
}
