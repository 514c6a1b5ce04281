// SPDX-License-Identifier: Apache-2.0
// What layers compute in under mixed precision, by definition and by rules.
#include "graph/precision_plan.h"

#include <nlohmann/json.hpp>

#include "graph_fixture.h"
#include "renaissance/core/error.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "support/throws.h"

namespace tr::test {
namespace {

ArchPlan plan_of() {
  const BluePrint model = seq(seq(fc(8, true), relu()).named("body"), fc(8, true), fc(4, true));
  return expand(model, {{"image", {{12}, DType::FP32}}});
}

GraphOptions fp16(std::vector<PrecisionRule> rules = {}) {
  GraphOptions options;
  options.low_dtype = DType::FP16;
  options.precision = std::move(rules);
  return options;
}

std::vector<DType> computes(const GraphOptions& options) {
  std::vector<DType> all;
  for (const LayerPrecision& layer : plan_precision(plan_of(), options))
    all.push_back(layer.compute);
  return all;
}

using DTypes = std::vector<DType>;
constexpr DType kLow = DType::FP16, kFull = DType::FP32;

TEST(PrecisionPlan, ProductsAreLowAndTheRestFollows) {
  EXPECT_EQ(computes(GraphOptions{}), DTypes(4, kFull));
  EXPECT_EQ(computes(fp16()), DTypes(4, kLow));
}

TEST(PrecisionPlan, TheLastRuleOfANameOrItsBeginningHolds) {
  EXPECT_EQ(computes(fp16({{"", false}})), DTypes(4, kFull));
  EXPECT_EQ(computes(fp16({{"", false}, {"1", true}})), (DTypes{kFull, kFull, kLow, kFull}))
      << plan_of().text();
  EXPECT_EQ(computes(fp16({{"body", false}})), (DTypes{kFull, kFull, kLow, kLow}));
}

TEST(PrecisionPlan, IsPrinted) {
  const std::string text = precision_text(plan_of(), fp16({{"body", false}}));
  EXPECT_NE(text.find("rule"), std::string::npos) << text;
  EXPECT_NE(text.find("low"), std::string::npos);
  const auto rows = nlohmann::json::parse(precision_json(plan_of(), fp16({{"body", false}})));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].at("policy"), "rule");
  EXPECT_EQ(rows[0].at("computes"), "fp32");
  EXPECT_EQ(rows[2].at("policy"), "low");
  EXPECT_EQ(rows[2].at("output"), "fp16");
}

TEST(PrecisionPlan, RefusesInWords) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        computes(fp16({{"bod", false}}));
      },
      "no layer is called \"bod\""));
  GraphOptions full;
  full.precision = {{"body", true}};
  EXPECT_TRUE(throws<InvalidArgument>([&] { computes(full); }, "amp is off"));
}

}  // namespace
}  // namespace tr::test
