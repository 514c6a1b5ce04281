// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/loss.h"

#include <gtest/gtest.h>

#include "algo/loss_spec.h"
#include "renaissance/core/error.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/math.h"
#include "renaissance/ops/reduction.h"
#include "support/throws.h"

namespace tr::test {
namespace {

/// Names of the ops that a loss adds to a graph with two outputs.
std::vector<std::string> ops_of(const Loss& loss, ComputationGraph& graph) {
  GraphBuilder builder(graph);
  const TensorId outputs[] = {builder.field("y0"), builder.field("y1")};
  const TensorId sum = loss_spec(loss).build(
      builder,
      {.outputs = outputs,
       .field = [&](const std::string& field) { return builder.field(field); },
       .output_types = {{Shape{5}, DType::FP32}, {Shape{5}, DType::FP32}},
       .sample_fields = {{"label", {Shape{}, DType::INT32}}, {"target", {Shape{5}, DType::FP32}}}});
  EXPECT_EQ(graph.nodes.back().outputs.front(), sum);
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op);
  return ops;
}

TEST(LossBuilder, CrossEntropyIsLogSoftmaxThenNll) {
  ComputationGraph graph;
  EXPECT_EQ(ops_of(CrossEntropyLoss().label_smoothing(0.1f), graph),
            (std::vector<std::string>{"log_softmax", "nll"}));
  EXPECT_FLOAT_EQ(graph.nodes[1].attrs.f32("label_smoothing"), 0.1f);
  EXPECT_EQ(graph.tensor(graph.nodes[1].inputs[1]).name, "label");
}

TEST(LossBuilder, TermsAreSummed) {
  ComputationGraph graph;
  const Loss loss = Loss(CrossEntropyLoss()) + MSELoss().output(1).field("depth");
  EXPECT_EQ(ops_of(loss, graph), (std::vector<std::string>{"log_softmax", "nll", "mse", "add"}));
  EXPECT_EQ(graph.tensor(graph.nodes[2].inputs[0]).name, "y1");
  EXPECT_EQ(graph.tensor(graph.nodes[2].inputs[1]).name, "depth");
  const LossSpec spec = loss_spec(loss);
  EXPECT_EQ(spec.name, "cross_entropy+mse");
  EXPECT_EQ(spec.fields, (std::vector<std::string>{"label", "depth"}));
}

TEST(LossBuilder, OnlyClassScoresOfTheFirstOutputAreClassification) {
  EXPECT_TRUE(loss_spec(CrossEntropyLoss()).classification);
  EXPECT_FALSE(loss_spec(CrossEntropyLoss().output(1)).classification);
  EXPECT_FALSE(loss_spec(MSELoss()).classification);
  EXPECT_FALSE(loss_spec(BCEWithLogitsLoss()).classification);
}

TEST(LossBuilder, RegressionReadsTarget) {
  ComputationGraph graph;
  EXPECT_EQ(ops_of(BCEWithLogitsLoss(), graph), (std::vector<std::string>{"bce_with_logits"}));
  EXPECT_EQ(graph.tensor(graph.nodes[0].inputs[1]).name, "target");
}

TEST(LossBuilder, RefusesInWords) {
  EXPECT_TRUE(
      throws<InvalidArgument>([] { CrossEntropyLoss().label_smoothing(1.5f); },
                              "label_smoothing is 1.5, expected 0 <= label_smoothing <= 1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { CrossEntropyLoss().label_smoothing(-0.5f); },
                                      "label_smoothing is -0.5"));
  EXPECT_NO_THROW(CrossEntropyLoss().label_smoothing(1));
  EXPECT_TRUE(throws<InvalidArgument>([] { loss_spec(Loss{}); }, "it has no term"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { loss_spec(MSELoss().field("")); }, "the field's name is empty"));
  EXPECT_TRUE(throws<InvalidArgument>([] { loss_spec(MSELoss().output(-1)); }, "output is -1"));
  ComputationGraph graph;
  EXPECT_TRUE(throws<InvalidArgument>([&] { ops_of(MSELoss().output(2), graph); },
                                      "mse: output is 2, expected below 2 (outputs of the model)"));
}

Value distance() { return sub(model_output(), input("target")); }

TEST(OwnLoss, IsItsOpsOnFp32ThenTheSumOverSamples) {
  ComputationGraph graph;
  EXPECT_EQ(ops_of(0.5 * Loss(OwnLoss("squares", sum({1})(square()(distance())))), graph),
            (std::vector<std::string>{"cast", "cast", "sub", "square", "sum", "full_like", "mean",
                                      "mul", "sum", "scale"}));
  EXPECT_EQ(graph.nodes[2].layer, "squares.0");
  EXPECT_NE(graph.nodes[2].where.str().find("loss_test.cpp"), std::string::npos);
}

TEST(OwnLoss, HasTheNameAndTheFieldsOfItsExpression) {
  const Loss own = OwnLoss("pair", mean({})(square()(sub(model_output(1), input("target")))));
  EXPECT_EQ((Loss(CrossEntropyLoss()) + own).name(), "cross_entropy+pair");
  EXPECT_EQ(loss_spec(own).fields, (std::vector<std::string>{"target"}));
  EXPECT_FALSE(loss_spec(own).classification);
  const Value mine = mean({})(model_output());
  EXPECT_TRUE(loss_spec(OwnLoss("mine", mine).class_scores()).classification);
}

TEST(OwnLoss, ItsTextTellsExpressionsApart) {
  const auto text = [](const Value& value) { return Loss(OwnLoss("own", value)).text(); };
  const std::string one = text(mean({})(square()(distance())));
  EXPECT_EQ(text(mean({})(square()(distance()))), one);
  EXPECT_NE(text(sum({})(square()(distance()))), one);
  EXPECT_NE(text(mean({1})(square()(distance()))), one);
  EXPECT_NE(text(mean({})(square()(sub(input("target"), model_output())))), one);
  EXPECT_NE(text(mean({})(square()(sub(model_output(1), input("target"))))), one);
  EXPECT_EQ(one.substr(0, 15), "own(expression=");
}

TEST(OwnLoss, RefusesInWords) {
  const auto refused = [](const Value& value, const char* words) {
    return throws<InvalidArgument>(
        [&] {
          ComputationGraph graph;
          ops_of(OwnLoss("own", value), graph);
        },
        words);
  };
  EXPECT_TRUE(refused(distance(), "its value has shape [3, 5], expected [] (one number) or [3]"));
  EXPECT_TRUE(refused(sum({0})(distance()), "its value has shape [5]"));
  EXPECT_TRUE(refused(mean({})(fc(2, true)(model_output())), "it has the parameter own.0.weight"));
  EXPECT_TRUE(refused(mean({})(dropout(0.5f)(model_output())), "draws numbers"));
  EXPECT_TRUE(refused(mean({})(model_output(2)),
                      "it reads \"output.2\", expected one of output, "
                      "output.1"));
  EXPECT_TRUE(refused(mean({})(input("target")), "it reads no output of the model"));
  EXPECT_TRUE(refused(mean({})(sub(model_output(), input("depth"))), "depth"));
  EXPECT_TRUE(refused(less(mean({})(model_output()), mean({})(input("target"))),
                      "its value is bool, expected fp32"));
  EXPECT_TRUE(refused(mean({})(sub(model_output(), input("label"))), "in layer \"own.0\" (sub)"));
  EXPECT_TRUE(throws<InvalidArgument>([] { OwnLoss("my loss", mean({})(model_output())); },
                                      "its name is \"my loss\""));
  EXPECT_TRUE(throws<InvalidArgument>([] { model_output(-1); }, "index is -1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { loss_kind_from_name("own"); }, "own"));
}

}  // namespace
}  // namespace tr::test
