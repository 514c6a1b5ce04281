// SPDX-License-Identifier: Apache-2.0
// fuse_classifier_loss and fuse_step_tail: where they fire, and above all where they must not.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fusion_fixture.h"
#include "graph/compiler.h"
#include "graph/passes/pass.h"
#include "graph_fixture.h"
#include "renaissance/core/error.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/shape.h"

namespace tr {
namespace {

using test::count_op;
using test::FusingOracle;
using test::kDigitFields;
using test::lowered;
using test::names_of;
using test::only;
using test::ops_of;
using test::request_for;
using test::variant;

using Ops = std::vector<std::string>;

BluePrint mlp() { return seq(fc(32, true), relu(), fc(16, false), relu(), fc(10, true)); }

/// fp16 with loss scaling and Adam, as the GPU trains it.
CompileRequest mixed_request(const BluePrint& model, Mode mode, MicroStep micro = {}) {
  CompileRequest request =
      request_for(model, kDigitFields, {variant(mode, 8, kDigitFields, micro)});
  request.optimizer = {"adam", {}, 2};
  request.graph.low_dtype = DType::FP16;
  request.graph.loss_scaling = true;
  request.variants[0].fields["image"].dtype = DType::FP16;
  return request;
}

/// The parts of the optimizer's fusion stand alone.
void expect_no_update(const LoweredGraph& graph) {
  EXPECT_EQ(count_op(graph, "fc_update"), 0) << graph.text();
  EXPECT_GT(count_op(graph, "fc_dweight"), 0);
}

TEST(FuseStepTest, TrainingStepOfAnMlpIsEightNodes) {
  const LoweredGraph graph = lowered(mixed_request(mlp(), Mode::TRAIN));
  EXPECT_EQ(ops_of(graph), (Ops{"fc", "fc", "fc", "classifier_loss", "fc_dx", "fc_dx", "fc_update",
                                "finish_step"}))
      << graph.text();
}

TEST(FuseStepTest, ValidationOfAnMlpIsFiveNodes) {
  const LoweredGraph graph = lowered(mixed_request(mlp(), Mode::EVAL));
  EXPECT_EQ(ops_of(graph), (Ops{"fc", "fc", "fc", "classifier_loss", "finish_step"}));
  EXPECT_FALSE(only(graph, "classifier_loss").attrs.flag("gradient"));
  EXPECT_EQ(names_of(graph, only(graph, "finish_step").inputs)[1], "eval_counters");
  EXPECT_EQ(only(graph, "finish_step").state_writes, (std::vector<int>{0, 1}));
}

TEST(FuseStepTest, LossReadsAndWritesWhatItsPartsDid) {
  const LoweredGraph graph = lowered(mixed_request(mlp(), Mode::TRAIN));
  const LoweredNode& loss = only(graph, "classifier_loss");
  EXPECT_EQ(loss.label, GraphId::LOSS);
  EXPECT_TRUE(loss.attrs.flag("gradient"));
  EXPECT_EQ(loss.attrs.str("dtype"), "fp16");
  ASSERT_EQ(loss.inputs.size(), 5u);
  EXPECT_EQ(loss.inputs[0], graph.nodes[2].outputs[0]);
  EXPECT_EQ(names_of(graph, {loss.inputs.begin() + 1, loss.inputs.end()}),
            (Ops{"label", "counters", "step_floats", "loss_scale"}));
  const LoweredNode& last = only(graph, "finish_step");
  ASSERT_EQ(loss.outputs.size(), 3u);
  EXPECT_EQ(last.inputs[2], loss.outputs[0]);
  EXPECT_EQ(last.inputs[3], loss.outputs[1]);
  EXPECT_EQ(graph.nodes[4].inputs[0], loss.outputs[2]);
  EXPECT_TRUE(loss.state_writes.empty());
}

TEST(FuseStepTest, UpdateTakesOperandsMomentsAndCopy) {
  const LoweredGraph graph = lowered(mixed_request(mlp(), Mode::TRAIN));
  const LoweredNode& update = only(graph, "fc_update");
  EXPECT_EQ(update.label, GraphId::OPTIMIZER);
  EXPECT_EQ(update.attrs.str("optimizer"), "adam");
  // In the order in which the backward pass makes them: the last layer first.
  EXPECT_EQ(update.attrs.ints("biases"), (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(names_of(graph, update.outputs),
            (Ops{"found_inf", "grad_sumsq", "4.weight.grad", "4.bias.grad", "2.weight.grad",
                 "0.weight.grad", "0.bias.grad"}));
  EXPECT_EQ(names_of(graph, {update.inputs.begin() + 2, update.inputs.begin() + 6}),
            (Ops{"segments", "step_floats", "counters", "loss_scale"}));
  const Role ranges[] = {Role::WEIGHT, Role::GRADIENT, Role::MOMENT1, Role::MOMENT2,
                         Role::WEIGHT_CAST};
  const std::size_t places[] = {0, 1, 6, 7, 8};
  for (std::size_t i = 0; i < std::size(places); ++i) {
    EXPECT_EQ(graph.tensor(update.inputs[places[i]]).range_role, int(ranges[i])) << i;
  }
  EXPECT_EQ(update.inputs.size(), 9u + 6u);
  EXPECT_EQ(update.state_writes, (std::vector<int>{0, 6, 7, 8}));
  const LoweredNode& last = only(graph, "finish_step");
  EXPECT_EQ(last.state_writes, (std::vector<int>{0, 1, 6}));
  EXPECT_TRUE(last.attrs.flag("scaling"));
}

TEST(FuseStepTest, SgdHasTheMomentsThatItAsksFor) {
  auto request = mixed_request(mlp(), Mode::TRAIN);
  request.graph.low_dtype.reset();
  request.graph.loss_scaling = false;
  request.variants[0].fields["image"].dtype = DType::FP32;
  request.optimizer = {"sgd", {}, 0};
  EXPECT_EQ(only(lowered(request), "fc_update").state_writes, (std::vector<int>{0}));
  request.optimizer = {"sgd", {{"momentum", 0.9}}, 1};
  const LoweredGraph graph = lowered(request);
  EXPECT_EQ(only(graph, "fc_update").state_writes, (std::vector<int>{0, 6}));
  EXPECT_EQ(only(graph, "fc_update").inputs[7], kNoTensor);
  EXPECT_FALSE(only(graph, "finish_step").attrs.flag("scaling"));
}

TEST(FuseStepTest, EachFormIsAskedFor) {
  const auto with = [](std::set<std::string> without) {
    return lowered(mixed_request(mlp(), Mode::TRAIN), {}, FusingOracle(std::move(without)));
  };
  const LoweredGraph no_loss = with({"classifier_loss"});
  EXPECT_EQ(count_op(no_loss, "softmax_cross_entropy"), 1);
  EXPECT_EQ(count_op(no_loss, "topk_correct"), 1);
  EXPECT_EQ(count_op(no_loss, "fc_update"), 1);
  expect_no_update(with({"fc_update"}));
  EXPECT_EQ(count_op(with({"finish_step"}), "update_loss_scale"), 1);
}

TEST(FuseStepTest, AccumulationKeepsTheGradients) {
  for (const MicroStep micro : {MicroStep{true, false}, MicroStep{false, true}}) {
    auto request = mixed_request(mlp(), Mode::TRAIN, micro);
    request.graph.accumulate_steps = 2;
    const LoweredGraph graph = lowered(request);
    expect_no_update(graph);
    EXPECT_EQ(count_op(graph, "finish_step"), 1);
    EXPECT_EQ(count_op(graph, "classifier_loss"), 1);
    EXPECT_EQ(only(graph, "finish_step").attrs.flag("last_micro"), micro.last);
    EXPECT_EQ(only(graph, "finish_step").attrs.flag("scaling"), micro.last);
  }
}

TEST(FuseStepTest, RanksSumTheGradientsFirst) {
  auto request = mixed_request(mlp(), Mode::TRAIN);
  request.graph.world_size = 2;
  const LoweredGraph graph = lowered(request);
  expect_no_update(graph);
  EXPECT_GT(count_op(graph, "all_reduce"), 0);
}

TEST(FuseStepTest, LossWithASecondReaderOfItsLogProbabilitiesStays) {
  auto request = mixed_request(mlp(), Mode::TRAIN);
  request.loss.build = [](GraphBuilder& builder, const LossOperands& operands) {
    const TensorId logp = builder.add("log_softmax", {operands.outputs[0]});
    const TensorId label = operands.field("label");
    const TensorId plain = builder.add("nll", {logp, label});
    const TensorId smooth = builder.add("nll", {logp, label}, {{"label_smoothing", 0.1}});
    return builder.add("add", {plain, smooth});
  };
  const LoweredGraph graph = lowered(request);
  EXPECT_EQ(count_op(graph, "classifier_loss"), 0) << graph.text();
  EXPECT_EQ(count_op(graph, "topk_correct"), 1);
  EXPECT_EQ(count_op(graph, "fc_update"), 1) << "the update does not care about the loss";
}

TEST(FuseStepTest, LossWhoseLogProbabilitiesAreKeptStays) {
  const auto keep = [](ComputationGraph& graph) {
    const TensorId logp = only(graph, "log_softmax").outputs[0];
    graph.tensors[std::size_t(logp)].role = Role::RESULT;
    graph.tensors[std::size_t(logp)].type = TensorType{Shape{8, 10}, DType::FP32};
  };
  const LoweredGraph graph = lowered(mixed_request(mlp(), Mode::EVAL), keep);
  EXPECT_EQ(count_op(graph, "classifier_loss"), 0) << graph.text();
}

TEST(FuseStepTest, GradientThatIsReadIsWritten) {
  const auto read = [](ComputationGraph& graph) {
    GraphBuilder builder(graph);
    builder.at(GraphId::METRICS, "");
    const TensorId seen = builder.persistent("seen", Role::RESULT, {Shape{10, 16}, DType::FP16});
    const TensorId gradient = graph.find("4.weight.grad");
    ASSERT_NE(gradient, kNoTensor);
    builder.add_into("cast", {gradient}, {seen}, {{"dtype", std::string("fp16")}});
  };
  const LoweredGraph graph = lowered(mixed_request(mlp(), Mode::TRAIN), read);
  expect_no_update(graph);
  EXPECT_EQ(count_op(graph, "cast"), 1);
}

TEST(FuseStepTest, RangeOfGradientsThatIsReadIsWritten) {
  const auto read = [](ComputationGraph& graph) {
    GraphBuilder builder(graph);
    builder.at(GraphId::METRICS, "");
    const Node check = only(graph, "finite_check");
    const TensorType average = *graph.tensor(check.inputs[0]).type;
    const TensorId seen = builder.persistent("seen", Role::RESULT, average);
    builder.add_into("ema_update", {seen, check.inputs[0], check.outputs[0]}, {}, {{"decay", 0.9}});
  };
  expect_no_update(lowered(mixed_request(mlp(), Mode::TRAIN), read));
}

TEST(FuseStepTest, VerdictOfAnotherCheckIsNotTheUpdates) {
  for (const std::size_t input : {std::size_t{6}, std::size_t{7}}) {
    const auto other = [&](ComputationGraph& graph) {
      GraphBuilder builder(graph);
      const DType dtype = input == 6 ? DType::INT32 : DType::FP32;
      const TensorId given = builder.persistent("given", Role::SCALAR, {Shape{}, dtype});
      only(graph, "adam").inputs[input] = given;
    };
    expect_no_update(lowered(mixed_request(mlp(), Mode::TRAIN), other));
  }
}

TEST(FuseStepTest, VerdictThatIsReadBeforeTheUpdateComesFromItsOwnNode) {
  const auto read_early = [](ComputationGraph& graph) {
    const auto update = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                     [](const Node& node) { return node.op == "adam"; });
    Node reduce;
    reduce.op = "all_reduce_flag";
    reduce.inputs = {only(graph, "finite_check").outputs[0]};
    reduce.label = GraphId::CHECK;
    graph.nodes.insert(update, reduce);
  };
  expect_no_update(lowered(mixed_request(mlp(), Mode::TRAIN), read_early));
}

TEST(FuseStepTest, ParameterWithoutAGradientIsLeftToTheWholePass) {
  const Value x = input();
  const Value hidden = relu()(fc(16, true)(x));
  auto request =
      mixed_request(model({x}, {fc(10, true)(hidden), fc(3, true)(hidden)}), Mode::TRAIN);
  const LoweredGraph graph = lowered(request);  // the loss reads the first output alone
  expect_no_update(graph);
  EXPECT_EQ(count_op(graph, "adam"), 1);
}

TEST(FuseStepTest, LayersWithRowsOfTheirOwnAreNoError) {
  const std::map<std::string, TensorType> fields = {{"image", {Shape{4, 6}, DType::FP32}},
                                                    {"label", {Shape{}, DType::INT32}}};
  auto request = mixed_request(seq(fc(5, true), relu(), flatten(), fc(10, true)), Mode::TRAIN);
  request.sample_fields = fields;
  request.variants = {variant(Mode::TRAIN, 8, fields)};
  request.variants[0].fields["image"].dtype = DType::FP16;
  const LoweredGraph graph = lowered(request);
  EXPECT_EQ(count_op(graph, "fc_update"), 1) << graph.text();
  EXPECT_EQ(graph.tensor(only(graph, "fc_update").inputs[11]).type.shape, (Shape{8, 4, 5}));
}

TEST(FuseStepTest, RecordsOfDifferentStepsStayApart) {
  const auto separated = [](const std::function<void(ComputationGraph&)>& change) {
    const LoweredGraph graph = lowered(mixed_request(mlp(), Mode::TRAIN), change);
    EXPECT_EQ(count_op(graph, "finish_step"), 0) << graph.text();
    EXPECT_EQ(count_op(graph, "record_step"), 1);
  };
  const auto give = [](const char* op, std::size_t input, const char* name, TensorType type) {
    return [=](ComputationGraph& graph) {
      GraphBuilder builder(graph);
      only(graph, op).inputs[input] = builder.persistent(name, Role::SCALAR, type);
    };
  };
  const TensorType flag{Shape{}, DType::INT32}, scalar{Shape{}, DType::FP32};
  const TensorType counters{Shape{8}, DType::INT64};
  separated(give("advance_counters", 0, "other", counters));
  separated(give("advance_counters", 1, "other", flag));
  separated(give("update_loss_scale", 0, "other", scalar));
  separated(give("update_loss_scale", 1, "other", flag));
  separated(give("update_loss_scale", 2, "other", counters));
  // Counts every step as a good one, whatever the record says.
  separated([](ComputationGraph& graph) { only(graph, "advance_counters").inputs.pop_back(); });
  separated([](ComputationGraph& graph) {
    Node between;
    between.op = "all_reduce_flag";
    between.inputs = {graph.find("found_inf")};
    between.label = GraphId::METRICS;
    const auto advance = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
      return node.op == "advance_counters";
    });
    graph.nodes.insert(advance, between);
  });
}

}  // namespace
}  // namespace tr
