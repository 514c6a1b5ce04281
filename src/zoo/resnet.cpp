// SPDX-License-Identifier: Apache-2.0
// Source: He et al. 2015, arXiv:1512.03385; Xie et al. 2016, arXiv:1611.05431 (groups); Zagoruyko,
// Komodakis 2016, arXiv:1605.07146 (width). The stride is in the 3x3 convolution and names are
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

constexpr std::int64_t kExpansion = 4;

struct Block {
  std::int64_t width;  // of the stage
  std::int64_t stride;
  bool project;  // the shortcut, by a 1x1 convolution
};

std::int64_t out_channels(const ResNetRow& row, const Block& block) {
  return block.width * (row.bottleneck ? kExpansion : 1);
}

/// Adds the shortcut to what a block's body makes of x, and rectifies.
BluePrint joined(const ResNetRow& row, const Block& block, const Value& x, const Value& body) {
  const std::int64_t out = out_channels(row, block);
  const Value shortcut =
      block.project ? seq(conv(out, 1, block.stride), bn()).named("downsample")(x) : x;
  return model(x, relu()(add(body, shortcut)));
}

BluePrint bottleneck(const ResNetRow& row, const Block& block) {
  const std::int64_t inner = block.width * row.group_width / 64 * row.groups;
  const Value x = input();
  Value y = conv(inner, 1).named("conv1")(x);
  y = relu()(bn().named("bn1")(y));
  y = group_conv(inner, row.groups, 3, block.stride, 1).named("conv2")(y);
  y = relu()(bn().named("bn2")(y));
  y = conv(block.width * kExpansion, 1).named("conv3")(y);
  y = bn(0.1f, 1e-5f, /*ends_branch=*/true).named("bn3")(y);
  return joined(row, block, x, y);
}

BluePrint basic(const ResNetRow& row, const Block& block) {
  const Value x = input();
  Value y = conv(block.width, 3, block.stride, 1).named("conv1")(x);
  y = relu()(bn().named("bn1")(y));
  y = conv(block.width, 3, 1, 1).named("conv2")(y);
  y = bn(0.1f, 1e-5f, /*ends_branch=*/true).named("bn2")(y);
  return joined(row, block, x, y);
}

}  // namespace

BluePrint resnet(const ResNetRow& row, int num_classes) {
  std::vector<BluePrint> layers;
  if (row.small_images) {
    layers = {conv(row.width, 3, 1, 1).named("conv1"), bn().named("bn1"), relu()};
  } else {
    layers = {conv(row.width, 7, 2, 3).named("conv1"), bn().named("bn1"), relu(), maxpool(3, 2, 1)};
  }
  std::int64_t channels = row.width;
  for (std::size_t s = 0; s < row.blocks.size(); ++s) {
    const std::int64_t width = row.width << s;
    std::vector<BluePrint> stage;
    for (int i = 0; i < row.blocks[s]; ++i) {
      Block block{width, i == 0 && s > 0 ? 2 : 1, false};
      block.project = block.stride > 1 || channels != out_channels(row, block);
      stage.push_back(row.bottleneck ? bottleneck(row, block) : basic(row, block));
      channels = out_channels(row, block);
    }
    layers.push_back(seq(stage).named("layer" + std::to_string(s + 1)));
  }
  layers.push_back(gap());
  layers.push_back(flatten());
  layers.push_back(fc(num_classes, true).named("fc"));
  return seq(layers);
}

}  // namespace tr::zoo
