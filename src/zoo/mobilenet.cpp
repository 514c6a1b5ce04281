// SPDX-License-Identifier: Apache-2.0
// Inverted residuals. Sources: MobileNetV2, Sandler et al. 2018, arXiv:1801.04381; MobileNetV3
// (large), Howard et al. 2019, arXiv:1905.02244; EfficientNet-B0, Tan, Le 2019, arXiv:1905.11946.
// Names: torchvision's.
#include <algorithm>

#include "renaissance/ops/composite.h"
#include "renaissance/ops/conv.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/norm.h"
#include "renaissance/ops/pooling.h"
#include "renaissance/ops/shape.h"
#include "zoo/models.h"

namespace tr::zoo {

namespace {

using Activation = BluePrint (*)(std::source_location);

BluePrint activated(Activation activation) { return activation(std::source_location::current()); }

/// The batch norm of a family.
struct Norm {
  float momentum = 0.1f, eps = 1e-5f;
  BluePrint operator()(bool ends_branch = false) const { return bn(momentum, eps, ends_branch); }
};

/// Convolution that keeps the size at stride 1, norm, activation.
BluePrint conv_norm(std::int64_t out, std::int64_t kernel, std::int64_t stride, const Norm& norm,
                    Activation activation) {
  return seq(conv(out, kernel, stride, kernel / 2), norm(), activated(activation));
}
BluePrint depthwise_norm(std::int64_t kernel, std::int64_t stride, const Norm& norm,
                         Activation activation) {
  return seq(conv_dw(kernel, stride, kernel / 2), norm(), activated(activation));
}

/// x is added where a block keeps its shape.
BluePrint with_shortcut(const BluePrint& body, bool same) {
  return same ? residual(body) : seq(body);
}

BluePrint inverted_v2(std::int64_t in, std::int64_t expand, std::int64_t out, std::int64_t stride) {
  const Norm norm;
  std::vector<BluePrint> row;
  if (expand > 1) row.push_back(conv_norm(in * expand, 1, 1, norm, relu6));
  row.push_back(depthwise_norm(3, stride, norm, relu6));
  row.push_back(conv(out, 1));
  const bool same = stride == 1 && in == out;
  row.push_back(norm(same));
  return with_shortcut(seq(row).named("conv"), same);
}

/// Nearest multiple of 8, not below 0.9 of the number: torchvision's _make_divisible.
std::int64_t divisible(std::int64_t channels) {
  const std::int64_t rounded = std::max<std::int64_t>(8, (channels + 4) / 8 * 8);
  return rounded * 10 < channels * 9 ? rounded + 8 : rounded;
}

struct BlockV3 {
  std::int64_t kernel, inner, out;
  bool squeeze;
  Activation activation;
  std::int64_t stride;
};

BluePrint inverted_v3(std::int64_t in, const BlockV3& b) {
  const Norm norm{0.01f, 1e-3f};
  std::vector<BluePrint> row;
  if (b.inner != in) row.push_back(conv_norm(b.inner, 1, 1, norm, b.activation));
  row.push_back(depthwise_norm(b.kernel, b.stride, norm, b.activation));
  if (b.squeeze) {
    row.push_back(squeeze_excite(b.inner, divisible(b.inner / 4), relu(), hardsigmoid()));
  }
  const bool same = b.stride == 1 && in == b.out;
  row.push_back(seq(conv(b.out, 1), norm(same)));
  return with_shortcut(seq(row).named("block"), same);
}

struct BlockB0 {
  std::int64_t expand, kernel, stride, out;
};

/// `drop` is the probability that a sample takes the shortcut alone in training.
BluePrint mbconv_b0(std::int64_t in, const BlockB0& b, double drop) {
  const Norm norm;
  const std::int64_t inner = in * b.expand;
  std::vector<BluePrint> row;
  if (b.expand > 1) row.push_back(conv_norm(inner, 1, 1, norm, silu));
  row.push_back(depthwise_norm(b.kernel, b.stride, norm, silu));
  row.push_back(squeeze_excite(inner, std::max<std::int64_t>(1, in / 4), silu(), sigmoid()));
  const bool same = b.stride == 1 && in == b.out;
  row.push_back(seq(conv(b.out, 1), norm(same)));
  const BluePrint body = seq(row).named("block");
  if (!same || drop == 0) return with_shortcut(body, same);
  const Value x = input();
  const Value kept = stochastic_depth(float(drop)).named("stochastic_depth")(body(x));
  return model(x, layer("add", {{"keep_shape", true}}, 2).named("add")(kept, x));
}

}  // namespace

BluePrint mobilenet_v2(int num_classes) {
  struct Row {
    std::int64_t expand, out;
    int times;
    std::int64_t stride;
  };
  constexpr Row kRows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                           {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  std::vector<BluePrint> features = {conv_norm(32, 3, 2, {}, relu6)};
  std::int64_t channels = 32;
  for (const Row& row : kRows) {
    for (int i = 0; i < row.times; ++i) {
      features.push_back(inverted_v2(channels, row.expand, row.out, i == 0 ? row.stride : 1));
      channels = row.out;
    }
  }
  features.push_back(conv_norm(1280, 1, 1, {}, relu6));
  return seq(seq(features).named("features"), gap(), flatten(),
             seq(dropout(0.2f), fc(num_classes, true)).named("classifier"));
}

BluePrint mobilenet_v3_large(int num_classes) {
  const Activation hs = hardswish;
  const BlockV3 rows[] = {
      {3, 16, 16, false, relu, 1}, {3, 64, 24, false, relu, 2}, {3, 72, 24, false, relu, 1},
      {5, 72, 40, true, relu, 2},  {5, 120, 40, true, relu, 1}, {5, 120, 40, true, relu, 1},
      {3, 240, 80, false, hs, 2},  {3, 200, 80, false, hs, 1},  {3, 184, 80, false, hs, 1},
      {3, 184, 80, false, hs, 1},  {3, 480, 112, true, hs, 1},  {3, 672, 112, true, hs, 1},
      {5, 672, 160, true, hs, 2},  {5, 960, 160, true, hs, 1},  {5, 960, 160, true, hs, 1}};
  const Norm norm{0.01f, 1e-3f};
  std::vector<BluePrint> features = {conv_norm(16, 3, 2, norm, hs)};
  std::int64_t channels = 16;
  for (const BlockV3& row : rows) {
    features.push_back(inverted_v3(channels, row));
    channels = row.out;
  }
  features.push_back(conv_norm(6 * channels, 1, 1, norm, hs));
  return seq(
      seq(features).named("features"), gap(), flatten(),
      seq(fc(1280, true), hardswish(), dropout(0.2f), fc(num_classes, true)).named("classifier"));
}

BluePrint efficientnet_b0(int num_classes) {
  struct Row {
    BlockB0 block;
    int times;
  };
  constexpr Row kRows[] = {{{1, 3, 1, 16}, 1}, {{6, 3, 2, 24}, 2},  {{6, 5, 2, 40}, 2},
                           {{6, 3, 2, 80}, 3}, {{6, 5, 1, 112}, 3}, {{6, 5, 2, 192}, 4},
                           {{6, 3, 1, 320}, 1}};
  constexpr double kDrop = 0.2;  // of the block behind the last one; those before it by line
  constexpr int kBlocks = 16;
  int number = 0;
  std::vector<BluePrint> features = {conv_norm(32, 3, 2, {}, silu)};
  std::int64_t channels = 32;
  for (const Row& row : kRows) {
    std::vector<BluePrint> stage;
    for (int i = 0; i < row.times; ++i) {
      BlockB0 block = row.block;
      if (i > 0) block.stride = 1;
      stage.push_back(mbconv_b0(channels, block, kDrop * number++ / kBlocks));
      channels = block.out;
    }
    features.push_back(seq(stage));
  }
  features.push_back(conv_norm(1280, 1, 1, {}, silu));
  return seq(seq(features).named("features"), gap(), flatten(),
             seq(dropout(0.2f), fc(num_classes, true)).named("classifier"));
}

}  // namespace tr::zoo
