// SPDX-License-Identifier: Apache-2.0
// The first article's job: a network of four fully connected layers learns MNIST with augmentation,
// AdamW and a cosine schedule with warm-up. Usage: mlp_mnist [EPOCHS [DATA_FOLDER]]

#include <cstdlib>
#include <iostream>
#include <string>

#include "renaissance.h"

namespace {

tr::BluePrint network() {
  using namespace tr;
  return seq(fc(1024, true), relu(), fc(512, true), relu(), fc(256, true), relu(), fc(10, true));
}

tr::Session settings(const std::string& data_folder) {
  tr::Session session;
  session.global.manual_seed(123).global_batch_size(200).input_resolution(28);
  session.preprocessor.dataset("mnist", data_folder)
      .download(true)
      .normalization(tr::NormMode::MNIST)
      .train_transforms(tr::Pad(2), tr::RandomCrop(28), tr::RandomRotation(20),
                        tr::RandomScale(0.8f, 1.2f), tr::RandomErasing(0.5f));
  return session;
}

int train(int epochs, const std::string& data_folder) {
  tr::DeepLearningTask task;
  task.session(settings(data_folder))
      .model(network())
      .loss(tr::CrossEntropyLoss().label_smoothing(0.1f))
      .optimizer(tr::AdamW().weight_decay(1e-4))
      .scheduler(tr::CosineAnnealingLR().base_lr(1e-3).warmup(5))
      .total_epochs(epochs)
      .compile();
  const tr::TrainingResult result = task.run();
  std::cout << "best top-1 " << result.best_top1 << " in epoch " << result.best_epoch << ", "
            << result.images_per_s << " images/s\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? std::atoi(argv[1]) : 100,
                 argc > 2 ? argv[2] : std::string(TR_PROJECT_ROOT) + "/data/mnist");
  } catch (const tr::Error& error) {
    std::cerr << "mlp_mnist: " << error.what() << '\n';
    return 1;
  }
}
