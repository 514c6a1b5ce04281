// SPDX-License-Identifier: Apache-2.0
// fuse_first_conv: what lies between a network's first convolution and the norm behind it has no
// place of its own; where it must, because somebody reads it, the nodes stay apart.
#include "fusion_fixture.h"
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
using test::only;
using test::variant;

const std::map<std::string, TensorType> kPictureFields = {
    {"image", {Shape{16, 16, 3}, DType::FP32}}, {"label", {Shape{}, DType::INT32}}};

using Change = std::function<void(ComputationGraph&)>;

LoweredGraph lowered(std::vector<BluePrint> layers, std::set<std::string> without = {},
                     const Change& change = {}) {
  for (const BluePrint& layer : {gap(), flatten(), fc(10, true)}) layers.push_back(layer);
  CompileRequest request =
      test::request_for(seq(layers), kPictureFields, {variant(Mode::TRAIN, 4, kPictureFields)});
  request.graph.low_dtype = DType::FP16;
  request.variants[0].fields["image"].dtype = DType::FP16;
  return test::lowered(request, change, FusingOracle(std::move(without)));
}

/// Readers of the gradients of the norm and of the convolution in front of it are the same as
/// without the pass: the step's end.
TEST(FuseFirstConvTest, NeitherTheConvolutionsResultNorItsGradientIsWritten) {
  const std::vector<BluePrint> layers = {conv(16, 3, 1, 1), bn(), relu(), conv(8, 3)};
  const LoweredGraph apart = lowered(layers, {"conv_bn_act"});
  const LoweredGraph graph = lowered(layers);
  EXPECT_EQ(count_op(apart, "bn_act_backward"), 1);
  EXPECT_EQ(count_op(apart, "conv_dweight"), 2);
  for (const char* op : {"bn_act_backward", "bn_act", "conv_statistics"}) {
    EXPECT_EQ(count_op(graph, op), 0) << graph.text();
  }
  EXPECT_EQ(count_op(graph, "conv_dweight"), 1);
  const LoweredNode& forward = only(graph, "conv_bn_act");
  const LoweredNode& norm = only(apart, "bn_act");
  const LoweredNode& summing = only(apart, "conv_statistics");
  EXPECT_EQ(forward.label, norm.label);
  ASSERT_EQ(forward.inputs.size(), 6u);
  EXPECT_EQ(test::names_of(graph, {forward.inputs.begin(), forward.inputs.begin() + 2}),
            test::names_of(apart, summing.inputs));
  EXPECT_EQ(test::names_of(graph, {forward.inputs.begin() + 2, forward.inputs.end()}),
            test::names_of(apart, {norm.inputs.begin() + 1, norm.inputs.begin() + 5}));
  ASSERT_EQ(forward.outputs.size(), 7u);
  EXPECT_EQ(test::names_of(graph, {forward.outputs.begin(), forward.outputs.begin() + 5}),
            test::names_of(apart, {norm.outputs.begin(), norm.outputs.begin() + 5}));
  EXPECT_EQ(forward.attrs.ints("kernel"), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(forward.attrs.f64("eps"), norm.attrs.f64("eps"));
  EXPECT_EQ(forward.attrs.f64("momentum"), norm.attrs.f64("momentum"));

  const LoweredNode& back = only(graph, "conv_bn_act_dweight");
  const LoweredNode& norm_back = only(apart, "bn_act_backward");
  EXPECT_EQ(test::names_of(graph, {back.inputs[0], back.inputs[2]}),
            test::names_of(apart, {norm_back.inputs[0], norm_back.inputs[2]}));
  EXPECT_EQ(back.inputs[1], forward.outputs[5]) << "the mask";
  EXPECT_EQ(back.inputs[3], forward.outputs[1]) << "mean";
  EXPECT_EQ(back.inputs[4], forward.outputs[2]) << "rstd";
  EXPECT_EQ(back.inputs[5], forward.outputs[6]) << "the moments";
  EXPECT_EQ(back.inputs[6], forward.inputs[1]) << "the convolution's weight";
  EXPECT_EQ(back.inputs[7], forward.inputs[0]) << "the picture";
  ASSERT_EQ(back.outputs.size(), 3u);
  EXPECT_EQ(test::names_of(graph, {back.outputs.begin() + 1, back.outputs.end()}),
            test::names_of(apart, {norm_back.outputs.begin() + 1, norm_back.outputs.end()}));
}

TEST(FuseFirstConvTest, OneFormWithoutTheOtherKeepsTheNodesApart) {
  const std::vector<BluePrint> layers = {conv(16, 3, 1, 1), bn(), relu(), conv(8, 3)};
  for (const char* form : {"conv_bn_act", "conv_bn_act_dweight"}) {
    const LoweredGraph graph = lowered(layers, {form});
    EXPECT_EQ(count_op(graph, "conv_bn_act"), 0) << graph.text();
    EXPECT_EQ(count_op(graph, "conv_bn_act_dweight"), 0) << graph.text();
    EXPECT_EQ(count_op(graph, "bn_act_backward"), 1) << graph.text();
  }
}

// Its result would be missing there.
TEST(FuseFirstConvTest, AnotherReaderOfTheConvolutionKeepsTheNodesApart) {
  const Change read = [](ComputationGraph& graph) {
    const auto norm = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [](const Node& n) { return n.op == "bn"; });
    ASSERT_NE(norm, graph.nodes.end());
    const TensorId x = norm->inputs[0];
    Node reader;
    reader.op = "add";
    reader.attrs = complete_attrs(OpRegistry::instance().get("add"), {});
    reader.inputs = {x, x};
    reader.outputs = {TensorId(graph.tensors.size())};
    reader.label = norm->label;
    graph.tensors.push_back({"read", Role::RESULT, graph.tensor(x).type});
    graph.nodes.insert(norm + 1, reader);
  };
  const LoweredGraph graph = lowered({conv(16, 3, 1, 1), bn(), relu(), conv(8, 3)}, {}, read);
  EXPECT_EQ(count_op(graph, "conv_bn_act"), 0) << graph.text();
  EXPECT_EQ(count_op(graph, "bn_act"), 1) << graph.text();
  EXPECT_EQ(count_op(graph, "add"), 1) << graph.text();
}

TEST(FuseFirstConvTest, APoolingBehindTheNormKeepsItsWindows) {
  const std::vector<BluePrint> layers = {conv(16, 7, 2, 3), bn(), relu(), maxpool(3, 2, 1),
                                         conv(8, 1)};
  const LoweredGraph graph = lowered(layers);
  EXPECT_EQ(count_op(graph, "bn_maxpool_backward"), 0) << graph.text();
  const LoweredNode& fused = only(graph, "bn_maxpool_conv_dweight");
  const LoweredNode& forward = only(graph, "bn_maxpool");
  EXPECT_EQ(fused.attrs.ints("kernel"), (std::vector<std::int64_t>{7, 7}));
  EXPECT_EQ(fused.attrs.ints("pool_kernel"), forward.attrs.ints("kernel"));
  EXPECT_EQ(fused.attrs.ints("pool_stride"), forward.attrs.ints("stride"));
  EXPECT_EQ(fused.attrs.ints("pool_padding"), forward.attrs.ints("padding"));
  EXPECT_EQ(fused.inputs[6], forward.outputs[5]) << "the index";
  EXPECT_EQ(count_op(lowered(layers, {"bn_maxpool_conv_dweight"}), "bn_maxpool_backward"), 1);
}

TEST(FuseFirstConvTest, AConvolutionInsideTheNetworkWantsTheGradient) {
  const LoweredGraph graph =
      lowered({conv(16, 3, 1, 1), conv(16, 3, 1, 1), bn(), relu(), conv(8, 1)});
  EXPECT_EQ(count_op(graph, "conv_bn_act_dweight"), 0) << graph.text();
  EXPECT_EQ(count_op(graph, "bn_act_backward"), 1);
}

TEST(FuseFirstConvTest, ABiasOrNoRectifierKeepsTheNodesApart) {
  EXPECT_EQ(count_op(lowered({conv(16, 3, 1, 1, {.bias = true}), bn(), relu(), conv(8, 1)}),
                     "conv_bn_act_dweight"),
            0);
  EXPECT_EQ(count_op(lowered({conv(16, 3, 1, 1), bn(), conv(8, 1)}), "conv_bn_act_dweight"), 0);
}

/// Adds a reader of the norm's gradient `output` (1: of its weight, 2: of its bias), in front of
/// the convolution's gradient or behind it.
Change read_norm_gradient(std::size_t output, bool before) {
  return [output, before](ComputationGraph& graph) {
    const auto norm = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [](const Node& n) { return n.op == "bn_backward"; });
    ASSERT_NE(norm, graph.nodes.end());
    const auto weight = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
      return n.op == "conv_dweight" && n.inputs[0] == norm->outputs[0];
    });
    ASSERT_NE(weight, graph.nodes.end());
    const TensorId gradient = norm->outputs[output];
    Node reader;
    reader.op = "add";
    reader.attrs = complete_attrs(OpRegistry::instance().get("add"), {});
    reader.inputs = {gradient, gradient};
    reader.outputs = {TensorId(graph.tensors.size())};
    reader.label = GraphId::BACKWARD;
    graph.tensors.push_back({"read", Role::RESULT, graph.tensor(gradient).type});
    graph.nodes.insert(before ? weight : weight + 1, reader);
  };
}

// The fused node stands where the convolution's gradient did: a reader in front of it would read
// what is not written yet.
TEST(FuseFirstConvTest, AReaderOfTheNormsGradientsInBetweenKeepsTheNodesApart) {
  const std::vector<BluePrint> act = {conv(16, 3, 1, 1), bn(), relu(), conv(8, 3)};
  const std::vector<BluePrint> pool = {conv(16, 7, 2, 3), bn(), relu(), maxpool(3, 2, 1),
                                       conv(8, 1)};
  for (const std::size_t output : {1u, 2u}) {
    SCOPED_TRACE(output);
    const LoweredGraph apart = lowered(act, {}, read_norm_gradient(output, true));
    EXPECT_EQ(count_op(apart, "conv_bn_act_dweight"), 0) << apart.text();
    EXPECT_EQ(count_op(apart, "bn_act_backward"), 1);
    EXPECT_EQ(
        count_op(lowered(pool, {}, read_norm_gradient(output, true)), "bn_maxpool_conv_dweight"),
        0);
    const LoweredGraph behind = lowered(act, {}, read_norm_gradient(output, false));
    EXPECT_EQ(count_op(behind, "conv_bn_act_dweight"), 1) << behind.text();
    EXPECT_EQ(count_op(behind, "add"), 1);
    EXPECT_EQ(
        count_op(lowered(pool, {}, read_norm_gradient(output, false)), "bn_maxpool_conv_dweight"),
        1);
  }
}

}  // namespace
}  // namespace tr
