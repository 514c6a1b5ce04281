// SPDX-License-Identifier: Apache-2.0
// compact_strided_gradient: a short way of 1x1 windows with a stride gives its gradient at the
// pixels that it read; where the whole map is wanted, it stays.
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
using test::only;
using test::variant;
using Ints = std::vector<std::int64_t>;
using Change = std::function<void(ComputationGraph&)>;

/// Does not offer norms that read some pixels of a gradient alone.
class WholeMaps final : public KernelOracle {
 public:
  KernelChoice choose(const std::string& op, const Attrs& attrs, std::span<const TensorType> in,
                      std::span<const TensorType> out) const override {
    return all_.choose(op, attrs, in, out);
  }
  bool knows(const std::string& op) const override { return all_.knows(op); }
  bool fuses(const std::string& op, const Attrs& attrs,
             std::span<const TensorType> in) const override {
    const bool strided = attrs.contains("more_stride") && attrs.ints("more_stride") != Ints{1, 1};
    return !strided && all_.fuses(op, attrs, in);
  }
  DeviceKind device() const override { return all_.device(); }

 private:
  FusingOracle all_;
};

LoweredGraph lowered(std::vector<BluePrint> layers, const Change& change = {},
                     const KernelOracle& oracle = FusingOracle()) {
  const std::map<std::string, TensorType> fields = {{"image", {Shape{15, 13, 8}, DType::FP32}},
                                                    {"label", {Shape{}, DType::INT32}}};
  for (const BluePrint& layer : {gap(), flatten(), fc(10, true)}) layers.push_back(layer);
  CompileRequest request =
      test::request_for(seq(layers), fields, {variant(Mode::TRAIN, 4, fields)});
  request.graph.low_dtype = DType::FP16;
  request.variants[0].fields["image"].dtype = DType::FP16;
  return test::lowered(request, change, oracle);
}

BluePrint body(std::int64_t stride = 1, std::int64_t padding = 1) {
  return seq(conv(16, 3, stride, padding), bn(), relu(), conv(16, 3, 1, 1), bn());
}

/// A block on 16 channels of its input's size, whose output `next` reads.
std::vector<BluePrint> in_front_of(const BluePrint& next) {
  return {conv(16, 3, 1, 1), relu(), residual(body()), relu(), next};
}

std::vector<BluePrint> with_short_way(const BluePrint& way, const BluePrint& main = body(2)) {
  return in_front_of(residual(main, seq(way, bn())));
}

bool is_strided(const LoweredNode& node) {
  return node.attrs.contains("more_stride") && node.attrs.ints("more_stride") != Ints{1, 1};
}

std::int64_t count_strided(const LoweredGraph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), is_strided);
}

const LoweredNode& only_strided(const LoweredGraph& graph) {
  EXPECT_EQ(count_strided(graph), 1) << graph.text();
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(), is_strided);
}

const LoweredNode& writer_of(const LoweredGraph& graph, TensorId id) {
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const LoweredNode& node) {
    return std::find(node.outputs.begin(), node.outputs.end(), id) != node.outputs.end();
  });
}

void expect_compact(const LoweredGraph& graph, const LoweredNode& norm, std::size_t more,
                    const Ints& stride, const Shape& pixels) {
  EXPECT_EQ(norm.attrs.ints("more_stride"), stride);
  EXPECT_EQ(graph.tensor(norm.inputs[0]).type.shape, (Shape{4, 15, 13, 16})) << "the other one";
  const LoweredTensor& gradient = graph.tensor(norm.inputs[more]);
  EXPECT_EQ(gradient.type, (TensorType{pixels, DType::FP16}));
  EXPECT_EQ(gradient.bytes, bytes_of(gradient.type));
  const LoweredNode& conv = writer_of(graph, norm.inputs[more]);
  EXPECT_EQ(conv.op, "conv_dx");
  EXPECT_EQ(conv.attrs.ints("kernel"), (Ints{1, 1}));
  EXPECT_EQ(conv.attrs.ints("stride"), (Ints{1, 1}));
  EXPECT_EQ(conv.inputs[2], kNoTensor);
}

TEST(CompactStridedGradientTest, AShortWayThatHalvesTheMap) {
  const LoweredGraph graph = lowered(with_short_way(conv(16, 1, 2)));
  const LoweredNode& norm = only_strided(graph);
  EXPECT_EQ(norm.op, "bn_act_backward");
  expect_compact(graph, norm, 6, {2, 2}, {4, 8, 7, 16});
  // Nothing else has changed: the same nodes as where whole maps are wanted.
  const LoweredGraph whole = lowered(with_short_way(conv(16, 1, 2)), {}, WholeMaps());
  EXPECT_EQ(count_strided(whole), 0);
  EXPECT_EQ(test::ops_of(graph), test::ops_of(whole));
}

TEST(CompactStridedGradientTest, OtherStrides) {
  const LoweredGraph three = lowered(with_short_way(conv(16, 1, 3), body(3)));
  expect_compact(three, only_strided(three), 6, {3, 3}, {4, 5, 5, 16});
  const LoweredGraph flat = lowered(with_short_way(
      conv(16, 1, {1, 2}), seq(conv(16, 3, {1, 2}, 1), bn(), relu(), conv(16, 3, 1, 1), bn())));
  expect_compact(flat, only_strided(flat), 6, {1, 2}, {4, 15, 7, 16});
}

TEST(CompactStridedGradientTest, EitherGradientOfTheSumMayBeTheCompactOne) {
  for (const bool short_first : {true, false}) {
    const Value x = input();
    const BluePrint way = seq(conv(16, 1, 2), bn());
    const Value first = short_first ? way(x) : body(2)(x);
    const Value second = short_first ? body(2)(x) : way(x);
    const LoweredGraph graph = lowered(in_front_of(model(x, add(first, second))));
    expect_compact(graph, only_strided(graph), 6, {2, 2}, {4, 8, 7, 16});
  }
}

TEST(CompactStridedGradientTest, BehindASumOfTwoNorms) {
  const BluePrint projected = residual(body(), seq(conv(16, 1), bn()));
  const LoweredGraph graph =
      lowered({conv(16, 3, 1, 1), relu(), projected, relu(),
               residual(body(2), seq(conv(16, 1, 2), bn())), relu(), conv(8, 1)});
  const LoweredNode& norm = only_strided(graph);
  EXPECT_EQ(norm.op, "bn_join_backward");
  expect_compact(graph, norm, 10, {2, 2}, {4, 8, 7, 16});
}

TEST(CompactStridedGradientTest, OtherWindowsKeepTheMap) {
  EXPECT_EQ(count_strided(lowered(with_short_way(conv(16, 3, 2, 1)))), 0);
  EXPECT_EQ(count_strided(lowered(with_short_way(conv(16, 1, 2, 1), body(2, 2)))), 0);
  EXPECT_EQ(count_strided(lowered(with_short_way(conv(16, 3, 2), body(2, 0)))), 0);
  const LoweredGraph plain = lowered(with_short_way(conv(16, 1), body()));
  EXPECT_EQ(count_strided(plain), 0);
  for (const LoweredTensor& tensor : plain.tensors) {
    EXPECT_FALSE(tensor.name.starts_with("compact(")) << tensor.name;
  }
}

TEST(CompactStridedGradientTest, ADeviceWithoutTheKernelsKeepsTheMap) {
  const std::vector<BluePrint> layers = with_short_way(conv(16, 1, 2));
  EXPECT_EQ(count_strided(lowered(layers, {}, WholeMaps())), 0);
  const LoweredGraph graph = lowered(layers, {}, FusingOracle({"conv_dx"}));
  EXPECT_EQ(count_strided(graph), 0) << graph.text();
}

Node& strided_gradient(ComputationGraph& graph) {
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op == "conv_dx" && node.attrs.ints("kernel") == Ints{1, 1} &&
           node.attrs.ints("stride") == Ints{2, 2};
  });
}

TEST(CompactStridedGradientTest, WhoElseSeesTheMapKeepsIt) {
  const std::vector<BluePrint> layers = with_short_way(conv(16, 1, 2));
  const LoweredGraph read = lowered(layers, [](ComputationGraph& graph) {
    const TensorId gradient = strided_gradient(graph).outputs[0];
    Node reader;
    reader.op = "mul";
    reader.attrs = complete_attrs(OpRegistry::instance().get("mul"), {});
    reader.inputs = {gradient, gradient};
    reader.outputs = {TensorId(graph.tensors.size())};
    reader.label = GraphId::BACKWARD;
    graph.tensors.push_back({"read", Role::RESULT, graph.tensor(gradient).type});
    graph.nodes.push_back(reader);
  });
  EXPECT_EQ(count_op(read, "mul"), 1);
  EXPECT_EQ(count_strided(read), 0) << read.text();
  const LoweredGraph kept = lowered(layers, [](ComputationGraph& graph) {
    const TensorId gradient = strided_gradient(graph).outputs[0];
    graph.tensors[std::size_t(gradient)].role = Role::RESULT;
  });
  EXPECT_EQ(count_strided(kept), 0) << kept.text();
}

}  // namespace
}  // namespace tr
