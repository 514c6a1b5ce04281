// SPDX-License-Identifier: Apache-2.0
// fuse_batch_norm, fuse_norm_pool and fuse_conv_statistics: what becomes of blocks with batch norm,
// where the passes must not fire, and which form they fall back to when one is refused.
#include "fusion_fixture.h"
#include "renaissance/ops/composite.h"
#include "renaissance/ops/conv.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/norm.h"
#include "renaissance/ops/pooling.h"
#include "renaissance/ops/shape.h"

namespace tr {
namespace {

using test::count_op;
using test::FusingOracle;
using test::lowered;
using test::only;
using test::ops_of;
using test::request_for;
using test::variant;

const std::map<std::string, TensorType> kPictureFields = {
    {"image", {Shape{16, 16, 8}, DType::FP32}}, {"label", {Shape{}, DType::INT32}}};

CompileRequest picture_request(const std::vector<BluePrint>& features, Mode mode = Mode::TRAIN) {
  std::vector<BluePrint> layers = features;
  for (const BluePrint& layer : {gap(), flatten(), fc(10, true)}) layers.push_back(layer);
  CompileRequest request =
      request_for(seq(layers), kPictureFields, {variant(mode, 4, kPictureFields)});
  request.graph.low_dtype = DType::FP16;
  request.variants[0].fields["image"].dtype = DType::FP16;
  return request;
}

/// The lowered graph where those forms are refused, and those of first convolutions, whose tests
/// are in fuse_first_conv_test.cpp.
LoweredGraph without(const std::vector<BluePrint>& features, std::set<std::string> forms,
                     Mode mode = Mode::TRAIN) {
  forms.insert({"conv_bn_act", "bn_maxpool_conv_dweight"});
  return lowered(picture_request(features, mode), {}, FusingOracle(std::move(forms)));
}

LoweredGraph fused(const std::vector<BluePrint>& features, Mode mode = Mode::TRAIN) {
  return without(features, {}, mode);
}

std::vector<BluePrint> plain_block() { return {conv(16, 3, 1, 1), bn(), relu(), conv(8, 1)}; }

std::vector<BluePrint> residual_block() {
  return {conv(16, 3, 1, 1), relu(),
          residual(seq(conv(16, 3, 1, 1), bn(), relu(), conv(16, 3, 1, 1), bn())), relu(),
          conv(8, 1)};
}

TEST(FuseBatchNormTest, ConvolutionNormAndRectifierAreTwoNodesEachWay) {
  const LoweredGraph graph = fused(plain_block());
  for (const char* op : {"bn", "relu", "bn_backward", "relu_backward"}) {
    EXPECT_EQ(count_op(graph, op), 0) << op << "\n" << graph.text();
  }
  const LoweredNode& summing = only(graph, "conv_statistics");
  const LoweredNode& forward = only(graph, "bn_act");
  const LoweredNode& backward = only(graph, "bn_act_backward");
  EXPECT_EQ(forward.inputs[0], summing.outputs[0]);
  ASSERT_EQ(forward.inputs.size(), 7u);
  EXPECT_EQ(forward.inputs[5], kNoTensor);
  EXPECT_EQ(forward.inputs[6], summing.outputs[1]);
  EXPECT_EQ(forward.attrs.str("activation"), "relu");
  EXPECT_FALSE(forward.attrs.flag("mask"));
  // The gradient needs x and the statistics; the rectifier's output is not among its inputs.
  ASSERT_EQ(backward.inputs.size(), 6u);
  EXPECT_EQ(backward.inputs[1], summing.outputs[0]);
  EXPECT_EQ(backward.inputs[2], forward.inputs[1]);
  EXPECT_EQ(backward.inputs[3], forward.inputs[2]);
  EXPECT_EQ(backward.inputs[4], forward.outputs[1]);
  EXPECT_EQ(backward.inputs[5], forward.outputs[2]);
}

TEST(FuseBatchNormTest, AResidualSumKeepsOneBitAnElement) {
  const LoweredGraph graph = fused(residual_block());
  EXPECT_EQ(count_op(graph, "bn_act"), 2) << graph.text();
  EXPECT_EQ(count_op(graph, "bn_act_backward"), 2);
  EXPECT_EQ(count_op(graph, "bn"), 0);
  for (const LoweredNode& node : graph.nodes) {
    if (node.op == "bn_act" && node.attrs.flag("mask")) {
      ASSERT_EQ(node.outputs.size(), 6u);
      const LoweredTensor& mask = graph.tensor(node.outputs[5]);
      EXPECT_EQ(mask.type.dtype, DType::UINT8);
      EXPECT_EQ(mask.bytes * 8, graph.tensor(node.outputs[0]).type.shape.num_elements());
      EXPECT_NE(node.inputs[5], kNoTensor);
    }
    if (node.op == "bn_act_backward" && node.attrs.flag("residual")) {
      ASSERT_EQ(node.outputs.size(), 4u);
      EXPECT_NE(node.inputs[7], kNoTensor);
    }
  }
}

TEST(FuseBatchNormTest, TwoGradientsOfOneSumAreAddedOnTheWay) {
  std::vector<BluePrint> layers = residual_block();
  layers.insert(layers.end() - 1,
                {residual(seq(conv(16, 3, 1, 1), bn(), relu(), conv(16, 3, 1, 1), bn())), relu()});
  const LoweredGraph graph = fused(layers);
  int with_more = 0;
  for (const LoweredNode& node : graph.nodes) {
    if (node.op == "bn_act_backward" && node.inputs.size() > 6 && node.inputs[6] != kNoTensor) {
      ++with_more;
    }
  }
  EXPECT_EQ(with_more, 1) << graph.text();  // the first block's output goes into the second twice
}

TEST(FuseBatchNormTest, ANormOnTheShortWayIsMadeInTheSum) {
  const std::vector<BluePrint> block = {
      conv(16, 3, 1, 1), relu(),
      residual(seq(conv(16, 3, 1, 1), bn(), relu(), conv(16, 3, 1, 1), bn()),
               seq(conv(16, 1), bn())),
      relu(), conv(8, 1)};
  const LoweredGraph graph = fused(block);
  EXPECT_EQ(count_op(graph, "bn"), 0) << graph.text();
  const LoweredNode& statistics = only(graph, "bn_statistics");
  EXPECT_EQ(count_op(graph, "conv_statistics"), 3);
  for (const LoweredNode& node : graph.nodes) {
    if (node.op != "bn_act" || !node.attrs.flag("mask")) continue;
    ASSERT_EQ(node.inputs.size(), 11u);
    EXPECT_EQ(node.inputs[5], statistics.inputs[0]);
    EXPECT_EQ(node.inputs[9], statistics.outputs[0]);
    EXPECT_EQ(node.inputs[10], statistics.outputs[1]);
    EXPECT_NE(node.inputs[6], kNoTensor) << "its own statistics";
  }
  EXPECT_EQ(count_op(without(block, {"bn_statistics"}), "bn_act"), 3);  // one without a rectifier

  // Their gradients come from one node, which makes the gradient of the sum on the way.
  EXPECT_EQ(count_op(graph, "bn_backward"), 0);
  const LoweredNode& join = only(graph, "bn_join_backward");
  ASSERT_EQ(join.inputs.size(), 10u);  // there is no second gradient
  EXPECT_EQ(join.inputs[6], statistics.inputs[0]);
  EXPECT_EQ(join.inputs[8], statistics.outputs[0]);
  ASSERT_EQ(join.outputs.size(), 6u);
  const LoweredGraph apart = without(block, {"bn_join_backward"});
  EXPECT_EQ(count_op(apart, "bn_backward"), 1) << apart.text();
  EXPECT_EQ(count_op(apart, "bn_act_backward"), 2);
}

TEST(FuseBatchNormTest, WithoutTheMaskTheSumIsFusedForwardOnly) {
  const LoweredGraph graph = without(residual_block(), {"bn_act_backward"});
  EXPECT_EQ(count_op(graph, "bn_act"), 2) << graph.text();
  EXPECT_EQ(count_op(graph, "bn_backward"), 2);
  EXPECT_EQ(count_op(graph, "relu_backward"), 3);
  for (const LoweredNode& node : graph.nodes) {
    if (node.op == "bn_act") {
      EXPECT_FALSE(node.attrs.flag("mask"));
    }
  }
}

TEST(FuseBatchNormTest, NothingIsFusedWhereTheDeviceOffersNothing) {
  const LoweredGraph graph =
      without(residual_block(), {"bn_act", "bn_act_backward", "conv_statistics"});
  EXPECT_EQ(count_op(graph, "bn"), 2);
  EXPECT_EQ(count_op(graph, "relu"), 3);
  EXPECT_EQ(count_op(graph, "bn_backward"), 2);
}

TEST(FuseBatchNormTest, AnotherReaderOfTheNormKeepsItApart) {
  const Value x = input();
  const Value normal = bn()(conv(8, 3, 1, 1)(x));
  const BluePrint twice = model(x, mul(relu()(normal), normal));
  const LoweredGraph graph = fused({twice, conv(8, 1)});
  EXPECT_EQ(count_op(graph, "relu"), 1) << graph.text();
  EXPECT_EQ(count_op(graph, "bn_act_backward"), 0);
}

TEST(FuseBatchNormTest, ValidationFusesTheRunningStatistics) {
  const LoweredGraph graph = fused(residual_block(), Mode::EVAL);
  EXPECT_EQ(count_op(graph, "bn_eval_act"), 2) << graph.text();
  EXPECT_EQ(count_op(graph, "bn_eval"), 0);
  EXPECT_EQ(count_op(graph, "conv_statistics"), 0);
}

TEST(FuseConvStatisticsTest, ABiasOrARefusalKeepsThePlainConvolution) {
  const std::vector<BluePrint> biased = {conv(16, 3, 1, 1, {.bias = true}), bn(), relu()};
  EXPECT_EQ(count_op(fused(biased), "conv_statistics"), 0);
  const LoweredGraph graph = without(plain_block(), {"conv_statistics"});
  EXPECT_EQ(count_op(graph, "conv"), 2);
  EXPECT_EQ(only(graph, "bn_act").inputs.size(), 5u);
}

TEST(FuseConvStatisticsTest, ANormWithoutRectifierTakesTheStatisticsToo) {
  const LoweredGraph graph = fused({conv(16, 3, 1, 1), bn(), conv(8, 1)});
  const LoweredNode& norm = only(graph, "bn_act");
  EXPECT_EQ(norm.attrs.str("activation"), "");
  EXPECT_EQ(norm.inputs.back(), only(graph, "conv_statistics").outputs[1]);
  EXPECT_EQ(count_op(graph, "bn_backward"), 1);
}

std::vector<BluePrint> pooled_block(const BluePrint& pool) {
  return {conv(16, 3, 1, 1), bn(), relu(), pool, conv(8, 1)};
}

TEST(FuseNormPoolTest, NeitherTheMapNorItsGradientIsWritten) {
  const LoweredGraph graph = fused(pooled_block(maxpool(2)));
  for (const char* op : {"bn_act", "bn_act_backward", "maxpool", "maxpool_backward"}) {
    EXPECT_EQ(count_op(graph, op), 0) << op << "\n" << graph.text();
  }
  const LoweredNode& forward = only(graph, "bn_pool");
  const LoweredNode& backward = only(graph, "bn_pool_backward");
  EXPECT_EQ(forward.inputs.back(), only(graph, "conv_statistics").outputs[1]);
  EXPECT_EQ(backward.inputs[6], forward.outputs[5]);
  const LoweredTensor& index = graph.tensor(forward.outputs[5]);
  EXPECT_EQ(index.bytes * 4, graph.tensor(forward.outputs[0]).type.shape.num_elements());
}

TEST(FuseNormPoolTest, OtherWindowsHaveAByteAnElement) {
  for (const BluePrint& pool : {maxpool(3, 2, 1), maxpool(2, 1, 0), maxpool(4)}) {
    const LoweredGraph graph = fused(pooled_block(pool));
    const LoweredNode& forward = only(graph, "bn_maxpool");
    const LoweredNode& backward = only(graph, "bn_maxpool_backward");
    EXPECT_EQ(count_op(graph, "maxpool"), 0) << graph.text();
    EXPECT_EQ(forward.attrs.ints("kernel"), backward.attrs.ints("kernel"));
    EXPECT_EQ(forward.inputs.back(), only(graph, "conv_statistics").outputs[1]);
    const LoweredTensor& index = graph.tensor(forward.outputs[5]);
    EXPECT_EQ(index.bytes, graph.tensor(forward.outputs[0]).type.shape.num_elements());
  }
}

TEST(FuseNormPoolTest, TheNextFormIsTriedThenThePoolingStays) {
  for (const char* refused : {"bn_pool", "bn_pool_backward"}) {
    EXPECT_EQ(count_op(without(pooled_block(maxpool(2)), {refused}), "bn_maxpool"), 1) << refused;
  }
  const LoweredGraph graph = without(pooled_block(maxpool(2)), {"bn_pool", "bn_maxpool_backward"});
  EXPECT_EQ(count_op(graph, "bn_act"), 1) << graph.text();
  const LoweredNode& pool = only(graph, "maxpool");
  EXPECT_EQ(graph.tensor(pool.outputs[1]).bytes,
            graph.tensor(pool.outputs[0]).type.shape.num_elements());
}

}  // namespace
}  // namespace tr
