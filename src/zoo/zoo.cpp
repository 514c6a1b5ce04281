// SPDX-License-Identifier: Apache-2.0
#include "renaissance/zoo/zoo.h"

#include "core/check.h"
#include "core/nearest_name.h"
#include "zoo/models.h"

namespace tr::zoo {

namespace {

struct Row {
  const char* name;
  BluePrint (*make)();
  Shape input;
  int num_classes;
};

const Row kModels[] = {{"mnist-mlp", mnist_mlp, {28, 28, 1}, 10},
                       {"vgg16bn", [] { return vgg16bn(); }, {224, 224, 3}, 1000},
                       {"resnet50", [] { return resnet50(); }, {224, 224, 3}, 1000},
                       {"densenet121", [] { return densenet121(); }, {224, 224, 3}, 1000}};

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Row& row : kModels) names.emplace_back(row.name);
  return names;
}

Model make_model(const std::string& name) {
  for (const Row& row : kModels) {
    if (name == row.name) return {row.name, row.make(), row.input, row.num_classes};
  }
  const std::vector<std::string> names = model_names();
  throw_as<InvalidArgument>("{}", unknown_name_message("model", name, names));
}

}  // namespace tr::zoo
