// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "renaissance/graph/blueprint.h"

namespace tr::zoo {

/// 784-1024-512-256-10 with relu: the first article's network.
BluePrint mnist_mlp();

/// Convolutions of each stage; every stage halves the image.
using VggStages = std::array<int, 5>;
constexpr VggStages kVgg11 = {1, 1, 2, 2, 2}, kVgg13 = {2, 2, 2, 2, 2}, kVgg16 = {2, 2, 3, 3, 3},
                    kVgg19 = {2, 2, 4, 4, 4};
/// torchvision.models.vgg11 to vgg19_bn.
BluePrint vgg(const VggStages& convolutions, bool norm, int num_classes = 1000);
/// Their "features" alone; `width` channels in the first stage.
BluePrint vgg_features(const VggStages& convolutions, bool norm, std::int64_t width = 64);
inline BluePrint vgg16bn(int num_classes = 1000) { return vgg(kVgg16, true, num_classes); }

struct ResNetRow {
  std::vector<int> blocks;  // of each stage; every stage but the first halves the image
  bool bottleneck = false;
  std::int64_t groups = 1;        // of the 3x3 convolution
  std::int64_t group_width = 64;  // its channels a group, where the first stage has 64
  std::int64_t width = 64;        // channels of the first stage
  bool small_images = false;      // a 3x3 stem that keeps the size, for 32 x 32 images
};
/// torchvision.models.resnet18 to resnet152, resnext and wide_resnet; with `small_images` the
/// networks for CIFAR (projections in place of the paper's padded shortcuts).
BluePrint resnet(const ResNetRow& row, int num_classes = 1000);
inline BluePrint resnet50(int num_classes = 1000) {
  return resnet({.blocks = {3, 4, 6, 3}, .bottleneck = true}, num_classes);
}

/// torchvision.models.densenet121.
BluePrint densenet121(int num_classes = 1000);
/// torchvision.models.mobilenet_v2.
BluePrint mobilenet_v2(int num_classes = 1000);
/// torchvision.models.mobilenet_v3_large.
BluePrint mobilenet_v3_large(int num_classes = 1000);
/// torchvision.models.efficientnet_b0; in training branches are left out at random, as there.
BluePrint efficientnet_b0(int num_classes = 1000);

}  // namespace tr::zoo
