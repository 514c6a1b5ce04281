// SPDX-License-Identifier: Apache-2.0
#include "renaissance/zoo/zoo.h"

#include "core/check.h"
#include "core/nearest_name.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/shape.h"
#include "zoo/models.h"

namespace tr::zoo {

namespace {

struct Row {
  const char* name;
  BluePrint (*make)();
  Shape input;
  int num_classes;
};

const Shape kImageNet = {224, 224, 3}, kCifar = {32, 32, 3};

const Row kModels[] = {
    {"mnist-mlp", mnist_mlp, {28, 28, 1}, 10},
    {"vgg11", [] { return vgg(kVgg11, false); }, kImageNet, 1000},
    {"vgg11_bn", [] { return vgg(kVgg11, true); }, kImageNet, 1000},
    {"vgg13", [] { return vgg(kVgg13, false); }, kImageNet, 1000},
    {"vgg13_bn", [] { return vgg(kVgg13, true); }, kImageNet, 1000},
    {"vgg16", [] { return vgg(kVgg16, false); }, kImageNet, 1000},
    {"vgg16_bn", [] { return vgg(kVgg16, true); }, kImageNet, 1000},
    {"vgg16bn", [] { return vgg16bn(); }, kImageNet, 1000},  // the second article's spelling
    {"vgg19", [] { return vgg(kVgg19, false); }, kImageNet, 1000},
    {"vgg19_bn", [] { return vgg(kVgg19, true); }, kImageNet, 1000},
    {"resnet18",
     [] {
       return resnet({{2, 2, 2, 2}});
     },
     kImageNet, 1000},
    {"resnet34",
     [] {
       return resnet({{3, 4, 6, 3}});
     },
     kImageNet, 1000},
    {"resnet50", [] { return resnet50(); }, kImageNet, 1000},
    {"resnet101",
     [] {
       return resnet({{3, 4, 23, 3}, true});
     },
     kImageNet, 1000},
    {"resnet152",
     [] {
       return resnet({{3, 8, 36, 3}, true});
     },
     kImageNet, 1000},
    {"resnext50_32x4d",
     [] {
       return resnet({{3, 4, 6, 3}, true, /*groups=*/32, /*group_width=*/4});
     },
     kImageNet, 1000},
    {"wide_resnet50_2",
     [] {
       return resnet({{3, 4, 6, 3}, true, /*groups=*/1, /*group_width=*/128});
     },
     kImageNet, 1000},
    {"cifar_resnet20",
     [] {
       return resnet({.blocks = {3, 3, 3}, .width = 16, .small_images = true}, 10);
     },
     kCifar, 10},
    {"cifar_resnet18",
     [] {
       return resnet({.blocks = {2, 2, 2, 2}, .small_images = true}, 10);
     },
     kCifar, 10},
    {"cifar_vgg11_bn",
     [] {
       return seq(vgg_features(kVgg11, true).named("features"), flatten(),
                  fc(10, true).named("classifier"));
     },
     kCifar, 10},
    {"densenet121", [] { return densenet121(); }, kImageNet, 1000},
    {"mobilenet_v2", [] { return mobilenet_v2(); }, kImageNet, 1000},
    {"mobilenet_v3_large", [] { return mobilenet_v3_large(); }, kImageNet, 1000},
    {"efficientnet_b0", [] { return efficientnet_b0(); }, kImageNet, 1000}};

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
