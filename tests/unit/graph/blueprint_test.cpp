// SPDX-License-Identifier: Apache-2.0
#include "renaissance/graph/blueprint.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>

#include "graph/arch_plan.h"
#include "graph_fixture.h"
#include "renaissance/core/error.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/shape.h"
#include "support/allocation_counter.h"

namespace tr {
namespace {

using test::kDigitFields;
using test::message_of;

std::vector<std::string> param_names(const ArchPlan& plan) {
  std::vector<std::string> names;
  for (const Param& param : plan.params) names.push_back(param.name);
  return names;
}

std::vector<std::string> layer_names(const ArchPlan& plan) {
  std::vector<std::string> names;
  for (const ArchLayer& layer : plan.layers) names.push_back(layer.name);
  return names;
}

const std::map<std::string, TensorType> kVectorFields = {{"image", {Shape{6}, DType::FP32}}};

TEST(BluePrintTest, NamesAreThoseOfPyTorchsSequential) {
  const ArchPlan plan = expand(seq(fc(16, true), relu(), fc(10, false)), kDigitFields);
  EXPECT_EQ(param_names(plan), (std::vector<std::string>{"0.weight", "0.bias", "2.weight"}));
  EXPECT_EQ(layer_names(plan), (std::vector<std::string>{"0.flatten", "0", "1", "2"}));
  EXPECT_EQ(plan.params[0].spec.type.shape, (Shape{16, 784}));
  EXPECT_EQ(plan.num_params(), 784 * 16 + 16 + 160);
  EXPECT_EQ(plan.flops(), 2 * (784 * 16 + 160) + plan.layers[2].cost.flops +
                              (plan.layers[1].cost.flops - 2 * 784 * 16));
}

TEST(BluePrintTest, NestedAndNamedPartsGiveDottedNames) {
  const BluePrint features = seq(fc(8, true), seq(relu(), fc(4, true))).named("features");
  const ArchPlan plan = expand(seq(features, fc(2, true).named("head")), kVectorFields);
  EXPECT_EQ(param_names(plan),
            (std::vector<std::string>{"features.0.weight", "features.0.bias", "features.1.1.weight",
                                      "features.1.1.bias", "head.weight", "head.bias"}));
}

TEST(BluePrintTest, EachPlaceIsAnInstanceOfItsOwn) {
  const BluePrint block = seq(fc(6, true), relu());
  EXPECT_EQ(expand(seq(block, block), kVectorFields).params.size(), 4u);
  EXPECT_EQ(expand(repeat(block, 3), kVectorFields).params.size(), 6u);
}

TEST(BluePrintTest, SharedPlacesUseOneSetOfParameters) {
  const BluePrint block = shared(seq(fc(6, true), relu(), fc(6, false)));
  const ArchPlan plan = expand(seq(block, block.named("again"), fc(2, true)), kVectorFields);
  EXPECT_EQ(param_names(plan), (std::vector<std::string>{"0.0.weight", "0.0.bias", "0.2.weight",
                                                         "2.weight", "2.bias"}));
  EXPECT_EQ(plan.layers[0].params, plan.layers[3].params);
  EXPECT_EQ(plan.layers[3].num_params, 0) << "counted at the first use only";
}

TEST(BluePrintTest, SharedPlaceOfAnotherShapeIsRefused) {
  const BluePrint layer = shared(fc(5, true));
  const std::string text =
      message_of<InvalidArgument>([&] { expand(seq(layer, layer), kVectorFields); });
  EXPECT_NE(text.find("shared parameter 0.weight is fp32 [5, 6], expected fp32 [5, 5]"),
            std::string::npos)
      << text;
}

TEST(BluePrintTest, ResidualAddsBodyAndShortcut) {
  const ArchPlan plan = expand(residual(fc(6, true)), kVectorFields);
  EXPECT_EQ(layer_names(plan), (std::vector<std::string>{"body", "add"}));
  EXPECT_EQ(plan.layers[1].inputs, (std::vector<int>{1, 0}));
  const ArchPlan projected = expand(seq(residual(fc(3, true), fc(3, false))), kVectorFields);
  EXPECT_EQ(param_names(projected),
            (std::vector<std::string>{"0.body.weight", "0.body.bias", "0.shortcut.weight"}));
}

TEST(BluePrintTest, AnyDagOfValuesWithSeveralInputsAndOutputs) {
  const Value a = input("image");
  const Value b = input("extra");
  const Value h = fc(4, true).named("left")(a);
  const Value both = concat({h, fc(3, true).named("right")(b)});
  const BluePrint net = model({a, b}, {fc(2, true).named("out")(both), h});
  const std::map<std::string, TensorType> fields = {{"image", {Shape{6}, DType::FP32}},
                                                    {"extra", {Shape{2}, DType::FP32}}};
  const ArchPlan plan = expand(net, fields);
  ASSERT_EQ(plan.inputs.size(), 2u);
  EXPECT_EQ(plan.inputs[1].field, "extra");
  ASSERT_EQ(plan.outputs.size(), 2u);
  EXPECT_EQ(plan.layers.size(), 4u) << "left is placed once although two outputs need it";
  EXPECT_EQ(plan.layers.back().types.front().shape.back(), 2);
}

TEST(BluePrintTest, WrongUseIsRefusedWithWords) {
  const Value a = input("image");
  const Value b = input("extra");
  EXPECT_NE(
      message_of<InvalidArgument>([] { seq(std::vector<BluePrint>{}); }).find("seq: it is empty"),
      std::string::npos);
  EXPECT_NE(message_of<InvalidArgument>([] { repeat(relu(), 0); }).find("times is 0"),
            std::string::npos);
  EXPECT_NE(message_of<InvalidArgument>([&] { model({a}, {add(a, b)}); }).find("input('extra')"),
            std::string::npos);
  EXPECT_NE(message_of<InvalidArgument>([&] {
              model({a, a}, {relu()(a)});
            }).find("listed twice"),
            std::string::npos);
  EXPECT_NE(message_of<InvalidArgument>([&] {
              fc(3, true)(a, b);
            }).find("applied to 2 values, expected 1"),
            std::string::npos);
  const BluePrint twins = seq(fc(6, true).named("x"), fc(6, true).named("x"));
  EXPECT_NE(message_of<InvalidArgument>([&] {
              expand(twins, kVectorFields);
            }).find("two layers have the name 'x'"),
            std::string::npos);
}

TEST(BluePrintTest, ChainsOfValuesMayBeLongerThanAStackIsDeep) {
  constexpr std::size_t kLength = 200'000;
  const Value in = input();
  std::vector<Value> ends{in, in};  // two values whose chains end in one
  for (Value& end : ends) {
    for (std::size_t i = 0; i < kLength / 2; ++i) end = relu()(end);
  }
  const BluePrint both = model({in}, {add(ends[0], ends[1])});
  ends.clear();
  EXPECT_EQ(expand(both, kVectorFields).layers.size(), kLength + 1);
}

// A destructor that allocates ends the program where memory is out.
TEST(BluePrintTest, ValuesAreFreedWithoutAllocations) {
  std::optional<Value> end = add(relu()(input()), input());
  for (int i = 0; i < 1000; ++i) end = add(*end, relu()(*end));
  const test::AllocationCounter counter;
  end.reset();
  EXPECT_EQ(counter.count(), 0);
}

TEST(BluePrintTest, BlueprintsInsideEachOtherHaveALimit) {
  BluePrint nested = relu();
  for (int i = 0; i < 999; ++i) nested = seq(nested, relu());
  EXPECT_EQ(expand(nested, kVectorFields).layers.size(), 1000u);
  const Value in = input();
  const std::string words = "1001 blueprints lie inside each other, expected at most 1000";
  EXPECT_NE(message_of<InvalidArgument>([&] { residual(nested); }).find(words), std::string::npos);
  EXPECT_NE(message_of<InvalidArgument>([&] { model(in, relu()(nested(in))); }).find(words),
            std::string::npos);
}

TEST(BluePrintTest, EmptyPartsAreRefused) {
  BluePrint layer = relu(), taken = std::move(layer);
  Value value = input(), kept = std::move(value);
  const std::vector<std::function<void()>> uses{[&] { layer(kept); },
                                                [&] { layer.apply({kept}); },
                                                [&] { layer.num_inputs(); },
                                                [&] { layer.num_outputs(); },
                                                [&] { layer.named("a"); },
                                                [&] { seq(layer, taken); },
                                                [&] { residual(layer); },
                                                [&] { repeat(layer, 2); },
                                                [&] { shared(layer); },
                                                [&] { taken(value); },
                                                [&] { add(kept, value); },
                                                [&] {
                                                  concat({value, kept});
                                                },
                                                [&] { model(value, taken(kept)); },
                                                [&] { model(kept, value); },
                                                [&] { expand(layer, kVectorFields); }};
  for (std::size_t i = 0; i < uses.size(); ++i) {
    EXPECT_NE(message_of<InvalidArgument>(uses[i]).find("empty"), std::string::npos) << i;
  }
}

TEST(BluePrintTest, ErrorsNameTheLayerAndTheUsersLine) {
  const BluePrint net = seq(fc(6, true), layer("concat", {{"axis", std::int64_t(5)}}));
  const std::string text = message_of<InvalidArgument>([&] { expand(net, kVectorFields); });
  EXPECT_NE(text.find("in layer \"1\" (concat), built at blueprint_test.cpp:"), std::string::npos)
      << text;
  const std::string sum =
      message_of<InvalidArgument>([&] { expand(residual(fc(5, true)), kVectorFields); });
  EXPECT_NE(sum.find("in layer \"add\" (add), built at blueprint_test.cpp:"), std::string::npos)
      << sum;
  const std::string unknown =
      message_of<InvalidArgument>([&] { expand(layer("rleu", {}), kVectorFields); });
  EXPECT_NE(unknown.find("relu"), std::string::npos) << unknown;
  const std::string field = message_of<InvalidArgument>([&] {
    expand(relu(), {{"imaged", {Shape{6}, DType::FP32}}});
  });
  EXPECT_NE(field.find("imaged"), std::string::npos) << field;
}

TEST(BluePrintTest, FirstFcAfterFlattenKeepsPyTorchsOrderInFiles) {
  const std::map<std::string, TensorType> fields = {{"image", {Shape{4, 5, 3}, DType::FP32}}};
  const ArchPlan plan = expand(seq(flatten(), dropout(0.5), fc(7, true), fc(2, true)), fields);
  const FileLayout& file = plan.params[0].spec.file;
  EXPECT_EQ(file.view, (std::vector<std::int64_t>{7, 4, 5, 3}));
  EXPECT_EQ(file.order, (std::vector<int>{0, 3, 1, 2}));
  EXPECT_EQ(file.shape, (std::vector<std::int64_t>{7, 60}));
  EXPECT_TRUE(plan.params[2].spec.file.empty()) << "the second fc reads features, not pixels";
}

}  // namespace
}  // namespace tr
