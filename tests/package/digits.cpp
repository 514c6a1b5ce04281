// SPDX-License-Identifier: Apache-2.0

#include <iostream>

#include "renaissance.h"
#include "renaissance/core/version.h"

using namespace tr;

int main() {
  GLOBAL_SETTING.use_cpu().manual_seed(1).global_batch_size(100);
  PREPROCESSOR_SETTING.dataset("procedural").normalization(NormMode::MNIST);

  BluePrint mlp = seq(fc(256, true), relu(), fc(128, true), relu(), fc(10, true));

  DeepLearningTask task;
  task.model(mlp)
      .loss(CrossEntropyLoss().label_smoothing(0.1f))
      .optimizer(AdamW().weight_decay(1e-4))
      .scheduler(CosineAnnealingLR().base_lr(0.002).warmup(1))
      .total_epochs(2)
      .compile();
  std::cout << "renaissance " << library_version() << "\n";
  std::cout << "best top-1: " << task.run().best_top1 << "\n";
  try {
    task.save_weights("/nowhere/mlp.safetensors");
  } catch (const DataError& error) {  // exceptions keep their type across the library's border
    std::cout << "refused: " << error.what() << "\n";
  }
}
