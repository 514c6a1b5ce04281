// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renaissance/graph/blueprint.h"

namespace tr::zoo {

/// 784-1024-512-256-10 with relu: the first article's network.
BluePrint mnist_mlp();
/// torchvision.models.vgg16_bn for 224 x 224 images.
BluePrint vgg16bn(int num_classes = 1000);
/// torchvision.models.resnet50.
BluePrint resnet50(int num_classes = 1000);
/// torchvision.models.densenet121.
BluePrint densenet121(int num_classes = 1000);

}  // namespace tr::zoo
