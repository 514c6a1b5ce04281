// SPDX-License-Identifier: Apache-2.0
// Layer functions: what the blueprints of known models expand to. Counts are torchvision's.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/arch_plan.h"
#include "renaissance/core/error.h"
#include "renaissance/ops/composite.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/norm.h"
#include "renaissance/ops/pooling.h"
#include "renaissance/ops/sequence.h"
#include "renaissance/ops/shape.h"
#include "support/throws.h"

namespace tr::test {
namespace {

ArchPlan plan_of(const BluePrint& model, Shape image = {224, 224, 3}) {
  return expand(model, {{"image", {image, DType::FP32}}});
}

Shape output_shape(const ArchPlan& plan) {
  return plan.layers.back().types.front().shape.drop_first();
}

const Param& param(const ArchPlan& plan, const std::string& name) {
  const auto it = std::find_if(plan.params.begin(), plan.params.end(),
                               [&](const Param& p) { return p.name == name; });
  if (it == plan.params.end())
    throw InvalidArgument("no parameter " + name + " in\n" + plan.text());
  return *it;
}

BluePrint vgg16bn() {
  std::vector<BluePrint> row;
  for (const auto& [channels, times] : {std::pair{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 0; i < times; ++i) {
      row.push_back(conv(channels, 3, 1, 1, {.bias = true}));
      row.push_back(bn());
      row.push_back(relu());
    }
    row.push_back(maxpool(2));
  }
  for (const BluePrint& layer : {flatten(), fc(4096, true), relu(), dropout(0.5), fc(4096, true),
                                 relu(), dropout(0.5), fc(1000, true)}) {
    row.push_back(layer);
  }
  return seq(row);
}

BluePrint resnet50() {
  const auto stage = [](int mid, int times, BlockOptions first) {
    std::vector<BluePrint> row = {block(mid, 4 * mid, RESNET_1_3_1_DS, first)};
    for (int i = 1; i < times; ++i) row.push_back(block(mid, 4 * mid, RESNET_1_3_1));
    return seq(row);
  };
  return seq(cbrp(64, 7, 2, 3, 3, 2, 1), stage(64, 3, {.stride = 1}), stage(128, 4, {}),
             stage(256, 6, {}), stage(512, 3, {}), gap_fc(1000, true));
}

BluePrint resnet18() {
  const auto stage = [](int out, BluePrint first) { return seq(first, block(out, RESNET_3_3)); };
  return seq(cbrp(64, 7, 2, 3, 3, 2, 1), stage(64, block(64, RESNET_3_3)),
             stage(128, block(128, RESNET_3_3_DS)), stage(256, block(256, RESNET_3_3_DS)),
             stage(512, block(512, RESNET_3_3_DS)), gap_fc(1000, true));
}

BluePrint mobilenet_v2() {
  std::vector<BluePrint> row = {conv(32, 3, 2, 1), bn(), relu6()};
  const int rows[][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                         {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  for (const auto& [expand, out, times, stride] : rows) {
    row.push_back(mbconv(expand, out, stride, false));
    for (int i = 1; i < times; ++i) row.push_back(mbconv(expand, out));
  }
  for (const BluePrint& layer :
       {conv(1280, 1), bn(), relu6(), gap(), dropout(0.2), fc(1000, true)}) {
    row.push_back(layer);
  }
  return seq(row);
}

TEST(Layers, Vgg16BnHasTorchvisionsSizes) {
  const ArchPlan plan = plan_of(vgg16bn());
  EXPECT_EQ(plan.num_params(), 138365992);
  EXPECT_EQ(output_shape(plan), Shape{1000});
  EXPECT_NEAR(double(plan.flops()), 2 * 15.47e9, 0.2e9);
  // Flattened from [7, 7, 512]: columns are (C, H, W) in files.
  const FileLayout& file = param(plan, "45.weight").spec.file;
  EXPECT_EQ(file.view, (std::vector<std::int64_t>{4096, 7, 7, 512}));
  EXPECT_EQ(file.order, (std::vector<int>{0, 3, 1, 2}));
  EXPECT_TRUE(param(plan, "48.weight").spec.file.empty());
}

TEST(Layers, Resnet50HasTorchvisionsSizes) {
  const ArchPlan plan = plan_of(resnet50());
  EXPECT_EQ(plan.num_params(), 25557032);
  EXPECT_NEAR(double(plan.flops()), 2 * 4.09e9, 0.2e9);
  const Param& first = param(plan, "1.0.0.body.0.weight");
  EXPECT_EQ(first.spec.type.shape, (Shape{64, 1, 1, 64}));
  EXPECT_EQ(first.spec.file.shape, (std::vector<std::int64_t>{64, 64, 1, 1}));
  EXPECT_EQ(param(plan, "2.0.0.shortcut.0.weight").spec.type.shape, (Shape{512, 1, 1, 256}));
}

TEST(Layers, OnlyTheLastNormOfABranchIsMarked) {
  const ArchPlan plan = plan_of(resnet50());
  const auto marked = std::count_if(plan.params.begin(), plan.params.end(),
                                    [](const Param& p) { return p.spec.branch_end; });
  EXPECT_EQ(marked, 16);
  EXPECT_TRUE(param(plan, "1.0.0.body.7.weight").spec.branch_end);
  EXPECT_FALSE(param(plan, "1.0.0.shortcut.1.weight").spec.branch_end);
}

TEST(Layers, Resnet18HasTorchvisionsSizes) {
  EXPECT_EQ(plan_of(resnet18()).num_params(), 11689512);
}

TEST(Layers, MobilenetV2HasTorchvisionsSizes) {
  const ArchPlan plan = plan_of(mobilenet_v2());
  EXPECT_EQ(plan.num_params(), 3504872);
  EXPECT_NEAR(double(plan.flops()), 2 * 0.3e9, 0.08e9);
}

TEST(Layers, DenseBlockJoinsChannels) {
  const Value x = input();
  const Value a = cbr(8, 3, 1, 1)(x);
  const Value b = concat({x, a});
  const ArchPlan plan =
      plan_of(model(x, gap_fc(10, false)(concat({b, cbr(8, 3, 1, 1)(b)}))), {16, 16, 4});
  EXPECT_EQ(param(plan, plan.params.back().name).spec.type.shape, (Shape{10, 20}));
}

TEST(Layers, PlacesStandInMessages) {
  const BluePrint wrong = seq(conv(4, 3), dropout(1.5f));
  EXPECT_TRUE(throws<InvalidArgument>([&] { plan_of(wrong); }, "p is 1.5, expected 0 <= p < 1"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { plan_of(wrong); }, "layer_test.cpp:"));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { plan_of(seq(conv(4, 300))); }, "kernel covers 300 cells"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { plan_of(seq(cbr(4, 3), block(8, RESNET_3_3))); },
                                      "in layer \"1.0.add\" (add)"));
}

TEST(Layers, BuildersRefuseContradictions) {
  EXPECT_TRUE(throws<InvalidArgument>([] { fc(0, true); }, "fc: out_features is 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { conv(0, 3); }, "conv: out_channels is 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { conv_dw(3, 1, 1, {.groups = 2}); },
                                      "conv_dw: options.groups is 2"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { group_conv(8, 4, 3, 1, 1, {.groups = 2}); }, "(groups is 4)"));
  EXPECT_TRUE(throws<InvalidArgument>([] { block(64, RESNET_1_3_1); }, "mid_channels is missing"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { block(64, 256, RESNET_3_3); }, "mid_channels is given (64)"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { block(64, RESNET_3_3, {.stride = 2}); }, "style without _DS"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { mbconv(6, 32, 3); }, "mbconv: stride is 3, expected 1 or 2"));
  EXPECT_TRUE(throws<InvalidArgument>([] { concat(std::vector<Value>{}); }, "no value is given"));
}

TEST(Layers, ATransformerBlockHasItsSizes) {
  const ArchPlan plan = plan_of(transformer_block(8, 2, {.causal = true, .dropout = 0.1f}), {5, 8});
  EXPECT_EQ(output_shape(plan), (Shape{5, 8}));
  EXPECT_EQ(plan.num_params(), 2 * 2 * 8 + 4 * 8 * 9 + 8 * 8 * 8 + 8 * 5);
  EXPECT_EQ(param(plan, "0.body.0.1.in_proj.weight").spec.type.shape, (Shape{24, 8}));
  EXPECT_TRUE(throws<InvalidArgument>([] { attention(8, 3); }, "heads is 3, expected a divisor"));
  EXPECT_TRUE(throws<InvalidArgument>([] { attention(8, 2, {.dropout = -0.1f}); },
                                      "dropout is -0.1, expected"));
}

TEST(Layers, IdsOfAVocabularyBecomeScoresOfIt) {
  const ArchPlan plan = expand(seq(embedding(11, 8), position_embedding(), transformer_block(8, 2),
                                   layer_norm(), fc(11, false)),
                               {{"image", {Shape{5}, DType::INT32}}});
  EXPECT_EQ(output_shape(plan), (Shape{5, 11}));
  EXPECT_EQ(param(plan, "0.weight").spec.type.shape, (Shape{11, 8}));
  EXPECT_EQ(param(plan, "1.weight").spec.type.shape, (Shape{5, 8}));
}

TEST(Layers, ReshapedFeaturesHaveNoImageBehindThem) {
  const ArchPlan plan = plan_of(seq(flatten(), reshape({6, 6}), fc(4, false)), {3, 4, 3});
  EXPECT_TRUE(param(plan, "2.weight").spec.file.empty());
}

TEST(Layers, AttributesReachTheOps) {
  const ArchPlan plan =
      plan_of(seq(leaky_relu(0.25f), elu(0.5f), softplus(2), gelu(GeluApproximation::TANH),
                  tanh_act(), channel_padding(4), avgpool(2, 2, 0, {.count_include_pad = false})),
              {8, 8, 3});
  EXPECT_EQ(plan.layers[0].attrs.f64("alpha"), 0.25);
  EXPECT_EQ(plan.layers[2].attrs.f64("alpha"), 2);
  EXPECT_EQ(plan.layers[3].op, "gelu_tanh");
  EXPECT_EQ(plan.layers[4].op, "tanh");
  EXPECT_EQ(plan.layers[5].types[0].shape, (Shape{2, 8, 8, 4}));
  EXPECT_FALSE(plan.layers[6].attrs.flag("count_include_pad"));
}

}  // namespace
}  // namespace tr::test
