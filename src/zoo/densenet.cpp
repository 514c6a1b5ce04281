// SPDX-License-Identifier: Apache-2.0
// Source: Huang et al. 2016, arXiv:1608.06993. Names: torchvision's.
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

constexpr int kGrowth = 32;
constexpr int kBottleneck = 4 * kGrowth;

BluePrint dense_layer() {
  return seq(bn().named("norm1"), relu(), conv(kBottleneck, 1).named("conv1"), bn().named("norm2"),
             relu(), conv(kGrowth, 3, 1, 1).named("conv2"));
}

/// Each layer reads everything before it in the block.
BluePrint dense_block(int layers) {
  const Value x = input();
  Value all = x;
  for (int i = 1; i <= layers; ++i) {
    const Value made = dense_layer().named("denselayer" + std::to_string(i))(all);
    all = concat({all, made});
  }
  return model(x, all);
}

BluePrint transition(int channels) {
  return seq(bn().named("norm"), relu(), conv(channels, 1).named("conv"), avgpool(2));
}

}  // namespace

BluePrint densenet121(int num_classes) {
  constexpr int kBlocks[] = {6, 12, 24, 16};
  std::vector<BluePrint> features = {conv(64, 7, 2, 3).named("conv0"), bn().named("norm0"), relu(),
                                     maxpool(3, 2, 1)};
  int channels = 64;
  for (int i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i + 1);
    features.push_back(dense_block(kBlocks[i]).named("denseblock" + number));
    channels += kBlocks[i] * kGrowth;
    if (i == 3) break;
    channels /= 2;
    features.push_back(transition(channels).named("transition" + number));
  }
  features.push_back(bn().named("norm5"));
  return seq(seq(features).named("features"), relu(), gap(), flatten(),
             fc(num_classes, true).named("classifier"));
}

}  // namespace tr::zoo
