// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/core/shape.h"
#include "renaissance/graph/blueprint.h"
#include "renaissance/task/deep_learning_task.h"
#include "renaissance/task/setting.h"

namespace tr::zoo {

/// A model with the input that it is made for. Parameter names are torchvision's.
struct Model {
  std::string name;
  BluePrint blueprint;
  Shape input;  // of one sample, [H, W, C]
  int num_classes = 0;
};

/// "mnist-mlp", "vgg16bn", "resnet50", "densenet121".
TR_API std::vector<std::string> model_names();
/// @throws InvalidArgument  an unknown name (the message gives the nearest one).
TR_API Model make_model(const std::string& name);

/// A complete training: model, data, augmentation, optimizer, schedule.
struct Recipe {
  std::string name;
  std::string summary;  // one sentence
  std::string model;    // name in model_names()
  std::string dataset;  // name of its set
};

/// "mnist-mlp", "mnist-mlp-plain".
TR_API std::vector<Recipe> recipes();
/// Puts the recipe's settings into `session` and `task`; the data's path is left to the caller.
/// @throws InvalidArgument  an unknown name (the message gives the nearest one).
TR_API void apply_recipe(const std::string& name, Session& session, DeepLearningTask& task);

}  // namespace tr::zoo
