// SPDX-License-Identifier: Apache-2.0
// What holds for every registered op, whatever it does.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "backend/math_functors.h"
#include "graph/computation_graph.h"
#include "op_cases.h"
#include "renaissance/core/error.h"
#include "support/near.h"

namespace tr::test {
namespace {

std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> ops;
  for (const std::string& name : OpRegistry::instance().names())
    ops.push_back(&OpRegistry::instance().get(name));
  return ops;
}

int num_outputs(const OpDef& def, const Attrs& attrs) {
  return def.num_outputs ? def.num_outputs(attrs) : int(def.outputs.size());
}

TEST(OpDefinitions, AreDocumentedAndCosted) {
  ASSERT_GT(all_ops().size(), 80u);
  for (const OpDef* def : all_ops()) {
    EXPECT_FALSE(def->doc.empty()) << def->name;
    EXPECT_TRUE(def->cost) << def->name;
    EXPECT_FALSE(def->inputs.empty()) << def->name;
    EXPECT_LE(def->num_optional_inputs, int(def->inputs.size())) << def->name;
  }
}

TEST(OpDefinitions, IndicesLieInRange) {
  for (const OpDef* def : all_ops()) {
    SCOPED_TRACE(def->name);
    const int inputs = int(def->inputs.size()), outputs = int(def->outputs.size());
    for (const auto* pairs : {&def->in_place, &def->views, &def->next_buffers}) {
      for (const auto& [out, in] : *pairs) {
        EXPECT_LT(out, outputs);
        EXPECT_LT(in, inputs);
        const bool read = def->type_only_from < 0 || in < def->type_only_from;
        EXPECT_TRUE(read) << "shares bytes with an input that is not there";
      }
    }
    for (const int in : def->state_writes) EXPECT_LT(in, inputs);
    EXPECT_LT(def->type_only_from, inputs);
    EXPECT_TRUE(def->eval_op.empty() || OpRegistry::instance().find(def->eval_op) != nullptr);
  }
}

/// An output may take the place of an input only if it is not larger.
TEST(OpDefinitions, InPlacePairsHaveEqualBytes) {
  for (const ShapeCase& c : all_cases()) {
    const OpDef& def = OpRegistry::instance().get(c.op);
    if (!c.words.empty() || c.op == "add" || c.op == "mul")
      continue;  // the planner compares bytes, b may be smaller
    for (const auto* pairs : {&def.in_place, &def.views}) {
      for (const auto& [out, in] : *pairs) {
        if (std::size_t(out) >= c.out.size()) continue;  // the case does not ask for that output
        EXPECT_EQ(bytes_of(c.out.at(std::size_t(out))), bytes_of(c.in.at(std::size_t(in))))
            << c.op << " " << c.name;
      }
    }
  }
}

TEST(OpDefinitions, CostsCountWhatIsMoved) {
  for (const ShapeCase& c : all_cases()) {
    if (!c.words.empty()) continue;
    const OpDef& def = OpRegistry::instance().get(c.op);
    const Cost cost = def.cost(complete_attrs(def, c.attrs), c.in, c.out);
    EXPECT_GE(cost.flops, 0) << c.op;
    EXPECT_EQ(cost.bytes > 0, def.views.empty()) << c.op;
  }
}

TEST(OpDefinitions, CostOfProductsIsTwoFlopsAMultiplyAdd) {
  const auto flops = [](const char* op, Attrs attrs, std::vector<TensorType> in) {
    const OpDef& def = OpRegistry::instance().get(op);
    const Attrs all = complete_attrs(def, attrs);
    return def.cost(all, in, def.infer(all, in)).flops;
  };
  const Attrs no_bias = {{"bias", false}};
  EXPECT_EQ(flops("fc", no_bias, {f32({7, 5}), f32({3, 5})}), 2 * 7 * 5 * 3);
  EXPECT_EQ(flops("fc", {}, {f32({7, 5}), f32({3, 5}), f32({3})}), 2 * 7 * 5 * 3 + 7 * 3);
  EXPECT_EQ(flops("fc_dx", {}, {f32({7, 3}), f32({3, 5})}), 2 * 7 * 5 * 3);
  EXPECT_EQ(flops("fc_dweight", no_bias, {f32({7, 3}), f32({7, 5})}), 2 * 7 * 5 * 3);
  const std::vector<std::int64_t> three = {3, 3};
  const Attrs conv = {{"out_channels", std::int64_t{5}}, {"kernel", three}};
  const TensorType x = f32({2, 8, 8, 4}), y = f32({2, 6, 6, 5}), weight = f32({5, 3, 3, 4});
  const std::int64_t products = 2 * (2 * 6 * 6 * 5) * 9 * 4;
  EXPECT_EQ(flops("conv", conv, {x, weight}), products);
  EXPECT_EQ(flops("conv_dx", conv, {y, weight, x}), products);
  EXPECT_EQ(flops("conv_dweight", conv, {y, x}), products);
}

// --- gradient rules ---

/// A graph with one node on inputs of given types, and the types of all its tensors.
class TypedGraph {
 public:
  TensorId input(const TensorType& type) {
    const TensorId id = builder_.field("in" + std::to_string(count_++));
    types_[id] = type;
    return id;
  }
  GraphBuilder& builder() { return builder_; }
  const TensorType& type(TensorId id) const { return types_.at(id); }

  /// Derives the types of what new nodes write.
  void infer() {
    for (; done_ < graph_.nodes.size(); ++done_) {
      const Node& node = graph_.nodes[done_];
      std::vector<TensorType> in;
      for (const TensorId id : node.inputs)
        in.push_back(id == kNoTensor ? TensorType{} : types_.at(id));
      const std::vector<TensorType> out = OpRegistry::instance().get(node.op).infer(node.attrs, in);
      ASSERT_EQ(out.size(), node.outputs.size()) << node.op;
      for (std::size_t i = 0; i < out.size(); ++i) types_[node.outputs[i]] = out[i];
    }
  }

 private:
  ComputationGraph graph_;
  GraphBuilder builder_{graph_};
  std::map<TensorId, TensorType> types_;
  std::size_t done_ = 0;
  int count_ = 0;
};

/// Every op with a gradient rule: each gradient has the shape of its input, and its dtype (weights
/// and biases: fp32).
TEST(GradientRules, GiveTheTypesOfTheInputs) {
  std::set<std::string> seen;
  for (const ShapeCase& c : all_cases()) {
    const OpDef& def = OpRegistry::instance().get(c.op);
    if (!c.words.empty() || !def.gradient || (def.needs_draws && c.in.size() == 1) ||
        !is_floating(c.in[0].dtype)) {
      continue;
    }
    SCOPED_TRACE(c.op + " " + c.name);
    seen.insert(c.op);
    TypedGraph graph;
    std::vector<TensorId> inputs;
    for (const TensorType& type : c.in) inputs.push_back(graph.input(type));
    const std::vector<TensorId> outputs = graph.builder().add_op(c.op, inputs, c.attrs);
    EXPECT_EQ(int(outputs.size()), num_outputs(def, complete_attrs(def, c.attrs)));
    graph.infer();
    std::vector<TensorId> dout(outputs.size(), kNoTensor);
    dout[0] = graph.input(graph.type(outputs[0]));
    const Node node = graph.builder().node(0);
    const std::vector<TensorId> gradients = def.gradient(graph.builder(), node, dout);
    graph.infer();
    ASSERT_LE(gradients.size(), inputs.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i] == kNoTensor) continue;
      const bool parameter = (c.op == "fc" || c.op == "conv") && i > 0;
      EXPECT_EQ(graph.type(gradients[i]).shape, c.in[i].shape) << "input " << i;
      EXPECT_EQ(graph.type(gradients[i]).dtype, parameter ? DType::FP32 : c.in[i].dtype)
          << "input " << i;
    }
  }
  for (const char* op : {"relu",
                         "fc",
                         "conv",
                         "bn",
                         "bn_frozen",
                         "maxpool",
                         "avgpool",
                         "adaptive_avgpool",
                         "gap",
                         "add",
                         "mul",
                         "sub",
                         "div",
                         "prelu",
                         "masked_fill",
                         "tril",
                         "sum",
                         "amax",
                         "var",
                         "permute",
                         "transpose",
                         "slice",
                         "gather",
                         "position_embedding",
                         "prepend_tokens",
                         "matmul",
                         "softmax",
                         "log_softmax_axis",
                         "glu",
                         "rrelu",
                         "alpha_dropout",
                         "layer_norm",
                         "rms_norm",
                         "group_norm",
                         "concat",
                         "cast",
                         "flatten",
                         "dropout",
                         "channel_padding",
                         "log_softmax",
                         "nll",
                         "softmax_cross_entropy",
                         "mse"}) {
    EXPECT_TRUE(seen.contains(op)) << op << " was not tried";
  }
}

TEST(GradientRules, StopGradientStops) {
  TypedGraph graph;
  const TensorId x = graph.input(f32({2, 2}));
  const TensorId y = graph.builder().add("stop_gradient", {x});
  const std::pair<TensorId, TensorId> seeds[] = {{y, graph.input(f32({2, 2}))}};
  const TensorId wanted[] = {x};
  EXPECT_EQ(append_backward(graph.builder(), seeds, wanted).front(), kNoTensor);
}

TEST(GradientRules, FusedActivationIsRefused) {
  TypedGraph graph;
  const TensorId x = graph.input(f32({2, 5})), weight = graph.input(f32({3, 5}));
  const Attrs attrs = {{"bias", false}, {"activation", std::string("relu")}};
  const TensorId y = graph.builder().add("fc", {x, weight}, attrs);
  const std::pair<TensorId, TensorId> seeds[] = {{y, graph.input(f32({2, 3}))}};
  const TensorId wanted[] = {x};
  EXPECT_THROW(append_backward(graph.builder(), seeds, wanted), InvalidArgument);
}

// --- table and functors ---

TEST(ElementwiseTable, RowsAgreeWithFunctors) {
  std::size_t num_functors = 0, num_rows = 0;
  functors::for_each([&]<typename Functor>() {
    ++num_functors;
    const std::string name(Functor::kName);
    const OpDef* forward = OpRegistry::instance().find(name);
    ASSERT_NE(forward, nullptr) << name << " has a functor and no row";
    EXPECT_EQ(!forward->attrs.empty(), Functor::kHasAlpha) << name;
    const OpDef& backward = OpRegistry::instance().get(name + "_backward");
    EXPECT_EQ(backward.inputs[1], Functor::kSaves == functors::Saved::Y ? "y" : "x") << name;
    TypedGraph graph;
    const TensorId x = graph.input(f32({3}));
    const TensorId y = graph.builder().add(name, {x});
    const TensorId dy[] = {graph.input(f32({3}))};
    forward->gradient(graph.builder(), graph.builder().node(0), dy);
    EXPECT_EQ(graph.builder().node(1).inputs[1], Functor::kSaves == functors::Saved::Y ? y : x)
        << name;
  });
  functors::for_each_math([&]<typename Functor>() {
    ++num_functors;
    const std::string name(Functor::kName);
    EXPECT_NE(OpRegistry::instance().find(name), nullptr) << name << " has a functor and no row";
    const OpDef& backward = OpRegistry::instance().get(name + "_backward");
    EXPECT_EQ(backward.inputs[1], Functor::kSaves == functors::Saved::Y ? "y" : "x") << name;
  });
  for (const OpDef* def : all_ops()) {
    const bool row = def->elementwise && def->inputs == std::vector<std::string>{"x"} &&
                     !def->needs_draws && def->views.empty() && def->name != "cast";
    num_rows += row;
  }
  EXPECT_EQ(num_rows, num_functors) << "a row has no functor";
}

TEST(ElementwiseTable, GradientsMatchFiniteDifferencesInDouble) {
  constexpr double kStep = test::kDifferenceStep;
  functors::for_each([]<typename Functor>() {
    for (const float alpha : {0.5f, 1.0f, 1.75f}) {
      const Functor f = functors::make<Functor>(alpha);
      for (double x = -7.0137; x < 7.1; x += 0.0731) {
        const double y = f(x), want = (f(x + kStep) - f(x - kStep)) / (2 * kStep);
        const double got = f.grad(Functor::kSaves == functors::Saved::Y ? y : x, 1.5);
        EXPECT_TRUE(test::is_near(got, 1.5 * want, test::kDifferenceTolerance))
            << Functor::kName << " at " << x;
      }
      if (!Functor::kHasAlpha) break;
    }
  });
}

TEST(ElementwiseTable, NanGoesThrough) {
  functors::for_each([]<typename Functor>() {
    const Functor f = functors::make<Functor>(0.5f);
    EXPECT_TRUE(std::isnan(f(std::nanf("")))) << Functor::kName;
    EXPECT_TRUE(std::isnan(f.grad(0.5f, std::nanf("")) + f.grad(7.0f, std::nanf("")) +
                           f.grad(1.5f, std::nanf(""))))
        << Functor::kName;
  });
}

}  // namespace
}  // namespace tr::test
