// SPDX-License-Identifier: Apache-2.0
// Source: He et al. 2015, arXiv:1512.03385; the stride is in the 3x3 convolution and names are
// torchvision's.
#include <string>

#include "renaissance/ops/conv.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/norm.h"
#include "renaissance/ops/pooling.h"
#include "renaissance/ops/shape.h"
#include "zoo/models.h"

namespace tr::zoo {

namespace {

constexpr int kExpansion = 4;

BluePrint bottleneck(int width, int stride, bool project) {
  const Value x = input();
  Value y = conv(width, 1).named("conv1")(x);
  y = relu()(bn().named("bn1")(y));
  y = conv(width, 3, stride, 1).named("conv2")(y);
  y = relu()(bn().named("bn2")(y));
  y = conv(width * kExpansion, 1).named("conv3")(y);
  y = bn(0.1f, 1e-5f, /*ends_branch=*/true).named("bn3")(y);
  const Value shortcut =
      project ? seq(conv(width * kExpansion, 1, stride), bn()).named("downsample")(x) : x;
  return model(x, relu()(add(y, shortcut)));
}

BluePrint stage(int width, int blocks, int stride) {
  std::vector<BluePrint> row;
  for (int i = 0; i < blocks; ++i) row.push_back(bottleneck(width, i == 0 ? stride : 1, i == 0));
  return seq(row);
}

}  // namespace

BluePrint resnet50(int num_classes) {
  return seq(conv(64, 7, 2, 3).named("conv1"), bn().named("bn1"), relu(), maxpool(3, 2, 1),
             stage(64, 3, 1).named("layer1"), stage(128, 4, 2).named("layer2"),
             stage(256, 6, 2).named("layer3"), stage(512, 3, 2).named("layer4"), gap(), flatten(),
             fc(num_classes, true).named("fc"));
}

}  // namespace tr::zoo
