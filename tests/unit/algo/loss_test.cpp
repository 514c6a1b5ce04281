// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/loss.h"

#include <gtest/gtest.h>

#include "algo/loss_spec.h"
#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr::test {
namespace {

/// Names of the ops that a loss adds to a graph with two outputs.
std::vector<std::string> ops_of(const Loss& loss, ComputationGraph& graph) {
  GraphBuilder builder(graph);
  const TensorId outputs[] = {builder.field("y0"), builder.field("y1")};
  const TensorId sum = loss_spec(loss).build(
      builder, outputs, [&](const std::string& field) { return builder.field(field); });
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

}  // namespace
}  // namespace tr::test
