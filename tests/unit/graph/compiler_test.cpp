// SPDX-License-Identifier: Apache-2.0
#include "graph/compiler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph_fixture.h"
#include "renaissance/core/error.h"
#include "renaissance/ops/conv.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/shape.h"

namespace tr {
namespace {

using test::count_op;
using test::kDigitFields;
using test::message_of;
using test::ops_of;
using test::request_for;
using test::variant;

BluePrint small_mlp() { return seq(fc(32, true), relu(), fc(16, true), relu(), fc(10, true)); }

/// Takes every op, but fuses nothing, or knows every op but one.
class StubbornOracle final : public KernelOracle {
 public:
  explicit StubbornOracle(std::string unknown = "") : unknown_(std::move(unknown)) {}
  KernelChoice choose(const std::string& op, const Attrs&, std::span<const TensorType>,
                      std::span<const TensorType>) const override {
    if (op == unknown_) throw Unsupported(op + ": no kernel takes this");
    return {"stub", op == "fc" ? 1000 : 0};
  }
  bool knows(const std::string& op) const override { return op != unknown_; }
  bool fuses(const std::string&, const Attrs&, std::span<const TensorType>) const override {
    return false;
  }
  DeviceKind device() const override { return DeviceKind::CPU; }

 private:
  std::string unknown_;
};

const PlanningOracle kOracle(DeviceKind::CPU);

TEST(CompilerTest, TrainingStepOfAnMlpIsTheDocumentedRowOfOps) {
  const CompileResult result = compile(
      request_for(small_mlp(), kDigitFields, {variant(Mode::TRAIN, 8, kDigitFields)}), kOracle);
  const std::vector<std::string> expected = {"fc",          "fc",
                                             "fc",          "softmax_cross_entropy",
                                             "loss_seed",   "softmax_cross_entropy_backward",
                                             "fc_dx",       "fc_dweight",
                                             "fc_dx",       "fc_dweight",
                                             "fc_dweight",  "finite_check",
                                             "sgd",         "topk_correct",
                                             "record_step", "advance_counters"};
  std::vector<std::string> got = ops_of(result.lowered[0]);
  std::vector<std::string> want = expected;
  std::sort(got.begin(), got.end());
  std::sort(want.begin(), want.end());
  EXPECT_EQ(got, want) << result.lowered[0].text();
  for (const LoweredNode& node : result.lowered[0].nodes) {
    const bool gated = (node.op == "fc" && node.layer != "4") || node.op == "fc_dx";
    if (gated) {
      EXPECT_EQ(node.attrs.str("activation"), "relu");
    }
  }
}

TEST(CompilerTest, FusionHappensOnlyWhereTheBackendOffersIt) {
  const CompileResult result =
      compile(request_for(small_mlp(), kDigitFields, {variant(Mode::TRAIN, 8, kDigitFields)}),
              StubbornOracle());
  const LoweredGraph& graph = result.lowered[0];
  EXPECT_EQ(count_op(graph, "relu"), 2);
  EXPECT_EQ(count_op(graph, "relu_backward"), 2);
  EXPECT_EQ(count_op(graph, "log_softmax"), 1);
  EXPECT_EQ(count_op(graph, "nll_backward"), 1);
  EXPECT_EQ(count_op(graph, "softmax_cross_entropy"), 0);
  for (const LoweredNode& node : graph.nodes) {
    if (node.op == "fc") {
      EXPECT_EQ(graph.tensor(node.workspace).bytes, 1000);
    }
  }
}

TEST(CompilerTest, EvaluationHasNoBackwardAndNoDropout) {
  const BluePrint net = seq(fc(16, true), relu(), dropout(0.5), fc(10, true));
  const CompileResult result =
      compile(request_for(net, kDigitFields, {variant(Mode::EVAL, 8, kDigitFields)}), kOracle);
  const LoweredGraph& graph = result.lowered[0];
  EXPECT_EQ(count_op(graph, "dropout"), 0);
  EXPECT_EQ(count_op(graph, "fc_dx") + count_op(graph, "fc_dweight") + count_op(graph, "sgd"), 0);
  EXPECT_EQ(count_op(graph, "record_step"), 1);
}

TEST(CompilerTest, DropoutDrawsItsMaskAgainInTheBackwardPass) {
  const BluePrint net = seq(fc(16, true), dropout(0.5), fc(10, true));
  const CompileResult result =
      compile(request_for(net, kDigitFields, {variant(Mode::TRAIN, 8, kDigitFields)}), kOracle);
  const LoweredGraph& graph = result.lowered[0];
  ASSERT_EQ(count_op(graph, "dropout"), 1);
  ASSERT_EQ(count_op(graph, "dropout_backward"), 1);
  std::vector<std::int64_t> ids;
  for (const LoweredNode& node : graph.nodes) {
    if (node.attrs.contains("draw_id")) ids.push_back(node.attrs.i64("draw_id"));
  }
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_EQ(ids.front(), ids.back());
}

TEST(CompilerTest, PredictionWritesTheModelsOutputs) {
  const CompileResult result = compile(
      request_for(small_mlp(), kDigitFields, {variant(Mode::PREDICT, 5, kDigitFields)}), kOracle);
  const LoweredGraph& graph = result.lowered[0];
  const auto output = std::find_if(graph.tensors.begin(), graph.tensors.end(),
                                   [](const LoweredTensor& t) { return t.name == "output"; });
  ASSERT_NE(output, graph.tensors.end());
  EXPECT_EQ(output->role, Role::RESULT);
  EXPECT_EQ(output->type, (TensorType{Shape{5, 10}, DType::FP32}));
  EXPECT_EQ(count_op(graph, "nll"), 0);
}

TEST(CompilerTest, AnOutputMayBeReadByTheModelToo) {
  const Value x = input();
  const Value hidden = fc(10, true)(x);
  const Value last = fc(10, true)(relu()(hidden));
  const CompileResult result = compile(
      request_for(model({x}, {hidden, last, hidden}), kDigitFields,
                  {variant(Mode::TRAIN, 5, kDigitFields), variant(Mode::PREDICT, 5, kDigitFields)}),
      kOracle);
  const LoweredGraph& graph = result.lowered.back();
  const auto writers = [&](const std::string& name) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const LoweredNode& node) {
      return graph.tensor(node.outputs[0]).name == name;
    });
  };
  for (const char* name : {"output", "output.1", "output.2"}) EXPECT_EQ(writers(name), 1) << name;
}

TEST(CompilerTest, MixedPrecisionCastsAreInTheGraph) {
  auto request = request_for(small_mlp(), kDigitFields, {variant(Mode::TRAIN, 8, kDigitFields)});
  request.graph.low_dtype = DType::FP16;
  request.graph.loss_scaling = true;
  request.variants[0].fields["image"].dtype = DType::FP16;
  const CompileResult result = compile(request, kOracle);
  const LoweredGraph& graph = result.lowered[0];
  EXPECT_EQ(count_op(graph, "cast"), 0)
      << "weights have 16-bit copies, gradients come out in fp32\n"
      << graph.text();
  EXPECT_EQ(count_op(graph, "update_loss_scale"), 1);
  for (const LoweredNode& node : graph.nodes) {
    if (node.op != "fc") continue;
    EXPECT_EQ(graph.tensor(node.inputs[1]).role, Role::WEIGHT_CAST);
    EXPECT_EQ(graph.tensor(node.inputs[2]).type.dtype, DType::FP32) << "biases stay fp32";
    EXPECT_EQ(graph.tensor(node.outputs[0]).type.dtype, DType::FP16);
  }
}

TEST(CompilerTest, AccumulationUpdatesInTheLastMicroStepOnly) {
  auto request = request_for(small_mlp(), kDigitFields,
                             {variant(Mode::TRAIN, 8, kDigitFields, {true, false}),
                              variant(Mode::TRAIN, 8, kDigitFields, {false, true})});
  request.graph.accumulate_steps = 2;
  const CompileResult result = compile(request, kOracle);
  const LoweredGraph& first = result.lowered[std::size_t(result.atlas.whole(0))];
  const LoweredGraph& last = result.lowered[std::size_t(result.atlas.whole(1))];
  EXPECT_EQ(count_op(first, "sgd"), 0);
  EXPECT_EQ(count_op(last, "sgd"), 1);
  EXPECT_EQ(count_op(first, "accumulate_grads"), 1);
  EXPECT_EQ(count_op(first, "advance_counters"), 1);
}

TEST(CompilerTest, ReductionOverRanksStandsBeforeTheCheckAndVanishesAlone) {
  auto request = request_for(small_mlp(), kDigitFields, {variant(Mode::TRAIN, 8, kDigitFields)});
  EXPECT_EQ(count_op(compile(request, kOracle).lowered[0], "all_reduce"), 0);
  request.graph.world_size = 2;
  const CompileResult result = compile(request, kOracle);
  const std::vector<std::string> ops = ops_of(result.lowered[0]);
  const auto reduce = std::find(ops.begin(), ops.end(), "all_reduce");
  ASSERT_NE(reduce, ops.end());
  EXPECT_LT(reduce - ops.begin(), std::find(ops.begin(), ops.end(), "finite_check") - ops.begin());
}

TEST(CompilerTest, EqualVariantsAreStoredOnce) {
  const CompileResult result = compile(
      request_for(small_mlp(), kDigitFields,
                  {variant(Mode::EVAL, 8, kDigitFields), variant(Mode::EVAL, 8, kDigitFields),
                   variant(Mode::EVAL, 3, kDigitFields)}),
      kOracle);
  EXPECT_EQ(result.lowered.size(), 2u);
  EXPECT_EQ(result.atlas.whole(0), result.atlas.whole(1));
  EXPECT_NE(result.atlas.whole(0), result.atlas.whole(2));
}

TEST(CompilerTest, PersistentPlacesAreEqualInAllVariants) {
  const CompileResult result = compile(
      request_for(small_mlp(), kDigitFields,
                  {variant(Mode::TRAIN, 8, kDigitFields), variant(Mode::TRAIN, 3, kDigitFields),
                   variant(Mode::EVAL, 5, kDigitFields)}),
      kOracle);
  std::map<std::string, std::int64_t> places;
  for (std::size_t v = 0; v < result.lowered.size(); ++v) {
    for (std::size_t i = 0; i < result.lowered[v].tensors.size(); ++i) {
      const LoweredTensor& tensor = result.lowered[v].tensors[i];
      if (!is_persistent(tensor.role)) continue;
      const std::int64_t offset = result.memory.variants[v].offsets[i];
      const auto [it, is_new] = places.emplace(tensor.name, offset);
      EXPECT_EQ(it->second, offset) << tensor.name;
    }
  }
  EXPECT_GT(places.size(), 10u);
}

TEST(CompilerTest, MissingKernelIsRefusedByNameAndPlace) {
  const std::map<std::string, TensorType> fields = {{"image", {Shape{8, 8, 3}, DType::FP32}},
                                                    {"label", {Shape{}, DType::INT32}}};
  const auto request = request_for(seq(conv(4, 3, 1, 1), relu(), fc(10, true)), fields,
                                   {variant(Mode::TRAIN, 8, fields)});
  const std::string text =
      message_of<Unsupported>([&] { compile(request, StubbornOracle("conv")); });
  EXPECT_NE(text.find("conv: no cpu kernel exists"), std::string::npos) << text;
  EXPECT_NE(text.find("in layer \"0\", built at compiler_test.cpp:"), std::string::npos) << text;
}

TEST(CompilerTest, LossThatReadsAMissingFieldIsRefused) {
  const std::map<std::string, TensorType> fields = {{"image", {Shape{4}, DType::FP32}}};
  const auto request = request_for(fc(3, true), fields, {variant(Mode::TRAIN, 8, fields)});
  const std::string text = message_of<InvalidArgument>([&] { compile(request, kOracle); });
  EXPECT_NE(text.find("CrossEntropyLoss: it reads the field 'label'"), std::string::npos) << text;
}

TEST(CompilerTest, RegistryIsSealedWhileACompileRuns) {
  const OpRegistry::Seal seal;
  OpDef def;
  def.name = "late";
  def.infer = [](const Attrs&, std::span<const TensorType> in) {
    return std::vector<TensorType>{in[0]};
  };
  EXPECT_THROW(OpRegistry::instance().add(def), InvalidArgument);
}

TEST(AutodiffTest, GradientsOfATiedWeightAreSummed) {
  const BluePrint layer = shared(fc(784, false));
  const CompileResult result =
      compile(request_for(seq(flatten(), layer, relu(), layer, fc(10, true)), kDigitFields,
                          {variant(Mode::TRAIN, 4, kDigitFields)}),
              kOracle);
  const LoweredGraph& graph = result.lowered[0];
  EXPECT_EQ(count_op(graph, "fc_dweight"), 3);
  EXPECT_EQ(count_op(graph, "add"), 1);
  int gradients = 0;
  for (const LoweredTensor& tensor : graph.tensors) {
    gradients += tensor.role == Role::GRADIENT && tensor.range_role < 0;
  }
  EXPECT_EQ(gradients, 3) << "one for the tied weight, two for the last layer";
}

TEST(AutodiffTest, StopGradientEndsTheWay) {
  const CompileResult result =
      compile(request_for(seq(fc(16, true), stop_gradient(), fc(10, true)), kDigitFields,
                          {variant(Mode::TRAIN, 4, kDigitFields)}),
              kOracle);
  EXPECT_EQ(count_op(result.lowered[0], "fc_dweight"), 1);
  EXPECT_EQ(count_op(result.lowered[0], "fc_dx"), 0);
  ASSERT_EQ(result.memory.segments.size(), 4u);
  for (const Segment& segment : result.memory.segments) {
    const bool behind = result.arch.params[std::size_t(segment.param)].name.starts_with("0.");
    EXPECT_EQ(segment.frozen, behind ? 1 : 0)
        << "weight decay must not move what the loss does not reach";
  }
}

TEST(VerifierTest, NamesThePassAndTheNode) {
  ComputationGraph graph;
  GraphBuilder builder(graph);
  builder.at(GraphId::FORWARD, "features.1");
  const TensorId x = builder.field("image");
  const TensorId y = builder.add("relu", {x});
  builder.add("relu", {y});
  std::swap(graph.nodes[0], graph.nodes[1]);
  const std::string text = message_of<InternalError>([&] { verify(graph, "my_pass"); });
  EXPECT_NE(
      text.find(
          "after my_pass: node 0 \"features.1\" (relu) reads features.1.y before it is written"),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace tr
