// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "op_cases.h"
#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr::test {

std::vector<ShapeCase> all_cases() {
  std::vector<ShapeCase> all;
  for (auto* family : {map_cases, product_cases, loss_cases, step_cases, fused_step_cases,
                       fused_norm_cases, tensor_cases}) {
    for (ShapeCase& c : family()) all.push_back(std::move(c));
  }
  return all;
}

namespace {

class ShapeRuleTest : public testing::TestWithParam<ShapeCase> {};

TEST_P(ShapeRuleTest, GivesTypesOrRefusesInWords) {
  const ShapeCase& c = GetParam();
  const OpDef& def = OpRegistry::instance().get(c.op);
  const Attrs attrs = complete_attrs(def, c.attrs);
  if (c.words.empty()) {
    EXPECT_EQ(def.infer(attrs, c.in), c.out);
    return;
  }
  for (const std::string& words : c.words) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { def.infer(attrs, c.in); }, words));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShapeRuleTest, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.op + "_" + info.param.name; });

// The elementwise table has one shape rule; tests/op has a row for each of its entries.
bool is_elementwise_row(const OpDef& def) {
  const OpDef& relu = OpRegistry::instance().get("relu");
  const bool backward = def.name.ends_with("_backward");
  const OpDef* forward =
      OpRegistry::instance().find(backward ? def.name.substr(0, def.name.size() - 9) : def.name);
  return forward != nullptr && forward->inputs == relu.inputs && forward->elementwise &&
         OpRegistry::instance().find(forward->name + "_backward") != nullptr &&
         !forward->needs_draws;
}

TEST(ShapeRules, EachOpHasAGoodAndABadCase) {
  std::map<std::string, std::set<bool>> seen;
  for (const ShapeCase& c : all_cases()) seen[c.op].insert(c.words.empty());
  const std::set<std::string> never_refuse = {"identity", "stop_gradient"};
  for (const std::string& name : OpRegistry::instance().names()) {
    if (is_elementwise_row(OpRegistry::instance().get(name))) continue;
    EXPECT_TRUE(seen[name].contains(true)) << name << " has no good case";
    EXPECT_TRUE(seen[name].contains(false) || never_refuse.contains(name))
        << name << " has no bad case";
  }
}

}  // namespace
}  // namespace tr::test
