// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/nearest_name.h"
#include "renaissance/zoo/zoo.h"

namespace tr::zoo {

std::vector<Recipe> recipes() {
  return {{"mnist-mlp", "the first article's network and augmentation, fp32", "mnist-mlp", "mnist"},
          {"mnist-mlp-plain", "the same network without augmentation, cosine without warm-up",
           "mnist-mlp", "mnist"}};
}

void apply_recipe(const std::string& name, Session& session, DeepLearningTask& task) {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  const bool plain = name == "mnist-mlp-plain";
  if (name != "mnist-mlp" && !plain) {
    throw_as<InvalidArgument>("{}", unknown_name_message("recipe", name, names));
  }
  session.global.global_batch_size(200).input_resolution(28);
  session.preprocessor.dataset("mnist").normalization(NormMode::MNIST);
  if (!plain) {
    session.preprocessor.train_transforms(Pad(2), RandomCrop(28), RandomRotation(20.0f, 0),
                                          RandomScale(0.8f, 1.2f), RandomErasing(0.5f));
  }
  task.model(make_model("mnist-mlp").blueprint)
      .loss(CrossEntropyLoss().label_smoothing(0.1f))
      .total_epochs(10)
      .optimizer(AdamW().weight_decay(1e-4))
      .scheduler(CosineAnnealingLR().base_lr(0.001).warmup(plain ? 0 : 5));
}

}  // namespace tr::zoo
