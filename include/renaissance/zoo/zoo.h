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

/// "mnist-mlp"; torchvision's vgg11 to vgg19_bn (vgg16_bn also as "vgg16bn"), resnet18 to
/// resnet152, resnext50_32x4d, wide_resnet50_2, densenet121, mobilenet_v2, mobilenet_v3_large and
/// efficientnet_b0; "cifar_resnet18", "cifar_resnet20" and
/// "cifar_vgg11_bn" for 32 x 32 images.
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

/// "mnist-mlp", "mnist-mlp-plain", "cifar10-resnet18".
TR_API std::vector<Recipe> recipes();
/// Puts the recipe's settings into `session` and `task`; the data's path is left to the caller.
/// @throws InvalidArgument  an unknown name (the message gives the nearest one).
TR_API void apply_recipe(const std::string& name, Session& session, DeepLearningTask& task);

/// The same of a recipe in a TOML file (docs/recipes.md). Keys of the file are those of
/// DeepLearningTask::set(); a later set() wins.
/// @throws DataError        the file cannot be read.
/// @throws InvalidArgument  "FILE:LINE:COLUMN: what": it is no TOML, a key, op or attribute is
/// unknown (the nearest one is named), a value is refused; or the file has no model.
TR_API void apply_recipe_file(const std::string& path, Session& session, DeepLearningTask& task);

/// The model for samples "image" of shape [H, W, C] as the table [model] of such a file, layer by
/// layer: what reads it gets the same layers, names and parameters.
/// @throws InvalidArgument  the model does not fit the input, or is one layer without a name.
TR_API std::string model_toml(const BluePrint& model, const Shape& input);

}  // namespace tr::zoo
