// SPDX-License-Identifier: Apache-2.0
// The second article's job: VGG16 with batch norm on ImageNet, SGD with Nesterov momentum, a cosine
// schedule by epoch. Usage: vgg16bn IMAGENET_FOLDER

#include <iostream>
#include <string>
#include <vector>

#include "renaissance.h"

namespace {

/// Stages of (channels, convolutions), each ended by a pooling that halves the picture.
tr::BluePrint features() {
  std::vector<tr::BluePrint> layers;
  for (const auto& [channels, convolutions] :
       {std::pair{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    layers.push_back(tr::repeat(tr::cbr(channels, 3, 1, 1), convolutions));
    layers.push_back(tr::maxpool(2, 2, 0));
  }
  return tr::seq(layers);
}

tr::BluePrint classifier() {
  using namespace tr;
  return seq(fc(4096, true), relu(), dropout(0.5f), fc(4096, true), relu(), dropout(0.5f),
             fc(1000, true));
}

tr::Session settings(const std::string& data_folder) {
  tr::Session session;
  session.global.manual_seed(123).global_batch_size(256).train_resolution(224).val_resolution(224);
  session.preprocessor.dataset("imagenet", data_folder)
      .normalization(tr::NormMode::IMAGENET)
      .train_transforms(tr::RandomResizedCrop(224), tr::RandomHorizontalFlip(),
                        tr::ColorJitter(0.2f, 0.2f, 0.2f, 0.1f), tr::RandomErasing(0.25f))
      .val_transforms(tr::Resize(256), tr::CenterCrop(224));
  return session;
}

int train(const std::string& data_folder) {
  tr::DeepLearningTask task;
  task.session(settings(data_folder))
      .model(tr::seq(features().named("features"), tr::flatten(), classifier().named("classifier")))
      .loss(tr::CrossEntropyLoss().label_smoothing(0.1f))
      .optimizer(tr::SGD().momentum(0.9).weight_decay(1e-4).nesterov())
      .scheduler(tr::CosineAnnealingLR().base_lr(0.045).warmup_start_lr(1e-3).warmup(10))
      .total_epochs(100)
      .compile(tr::CompileInfo::ALL);
  std::cout << "best top-1 " << task.run().best_top1 << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: vgg16bn IMAGENET_FOLDER\n";
    return 2;
  }
  try {
    return train(argv[1]);
  } catch (const tr::Error& error) {
    std::cerr << "vgg16bn: " << error.what() << '\n';
    return 1;
  }
}
