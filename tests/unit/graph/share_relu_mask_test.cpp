// SPDX-License-Identifier: Apache-2.0
// share_relu_mask: which rectifiers' results the backward pass takes as bits, and which it must
// not.
#include <gtest/gtest.h>

#include "fusion_fixture.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"

namespace tr {
namespace {

using test::count_op;
using test::FusingOracle;
using test::kDigitFields;
using test::lowered;
using test::request_for;
using test::variant;

/// Results of 2048 columns are 32 MiB at this batch.
constexpr int kBatch = 8192;

LoweredGraph trained(const BluePrint& model, int batch = kBatch, DType low = DType::FP16,
                     Mode mode = Mode::TRAIN, const KernelOracle& oracle = FusingOracle()) {
  CompileRequest request = request_for(model, kDigitFields, {variant(mode, batch, kDigitFields)});
  request.optimizer = {"adam", {}, 2};
  if (low != DType::FP32) request.graph.low_dtype = low;
  request.graph.loss_scaling = low == DType::FP16;
  request.variants[0].fields["image"].dtype = low;
  return lowered(request, {}, oracle);
}

/// How many fc_dx have a mask as their gate; each is that of an fc_marked.
int num_masked(const LoweredGraph& graph) {
  int masked = 0;
  for (const LoweredNode& node : graph.nodes) {
    if (node.op != "fc_dx" || node.inputs.size() < 3 || node.inputs[2] == kNoTensor) continue;
    const LoweredTensor& gate = graph.tensor(node.inputs[2]);
    if (gate.type.dtype != DType::UINT8) continue;
    ++masked;
    const bool made = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& other) {
      return other.op == "fc_marked" && other.outputs[1] == node.inputs[2];
    });
    EXPECT_TRUE(made) << graph.text();
    EXPECT_EQ(gate.bytes * 16, graph.tensor(node.outputs[0]).bytes);
  }
  return masked;
}

BluePrint mlp(int first, int second) {
  return seq(fc(first, true), relu(), fc(second, false), relu(), fc(10, true));
}

TEST(ShareReluMaskTest, LargeResultsAreGatesAsBits) {
  for (const DType low : {DType::FP16, DType::BF16}) {
    const LoweredGraph graph = trained(mlp(2048, 2048), kBatch, low);
    EXPECT_EQ(count_op(graph, "fc_marked"), 2) << graph.text();
    EXPECT_EQ(num_masked(graph), 2) << graph.text();
    EXPECT_EQ(count_op(graph, "fc"), 1) << "the classifier";
  }
}

TEST(ShareReluMaskTest, OnlyWhereTheResultIsLarge16BitsWideAndOfWholeMaskRows) {
  EXPECT_EQ(num_masked(trained(mlp(2048, 1024))), 1);
  EXPECT_EQ(num_masked(trained(mlp(2048, 2048), kBatch - 1)), 0);
  EXPECT_EQ(num_masked(trained(mlp(2048 + 64, 4096))), 1);
  EXPECT_EQ(num_masked(trained(mlp(2048, 2048), kBatch, DType::FP32)), 0);
  const BluePrint silus = seq(fc(2048, true), silu(), fc(2048, true), silu(), fc(10, true));
  EXPECT_EQ(num_masked(trained(silus)), 0);
}

TEST(ShareReluMaskTest, NothingWithoutABackwardPassOrKernels) {
  EXPECT_EQ(count_op(trained(mlp(2048, 2048), kBatch, DType::FP16, Mode::EVAL), "fc_marked"), 0);
  const FusingOracle without({"fc_marked"});
  const LoweredGraph graph = trained(mlp(2048, 2048), kBatch, DType::FP16, Mode::TRAIN, without);
  EXPECT_EQ(num_masked(graph), 0);
  EXPECT_EQ(count_op(graph, "fc"), 3);
}

}  // namespace
}  // namespace tr
