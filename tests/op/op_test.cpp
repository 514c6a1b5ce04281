// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "graph/op_def.h"
#include "op/op_harness.h"

namespace tr::test {
namespace {

class OpTest : public testing::TestWithParam<OpCase> {
 protected:
  template <typename Claim>
  void for_each_dtype(Claim claim) {
    for (DType dtype : GetParam().dtypes) {
      SCOPED_TRACE(std::string(name_of(dtype)));
      EXPECT_TRUE(claim(GetParam(), dtype, TaskDevice{}));
    }
  }
};

TEST_P(OpTest, ForwardMatchesReference) { for_each_dtype(forward_matches_reference); }

TEST_P(OpTest, GradientMatchesFiniteDifferences) {
  if (GetParam().differentiable.empty()) {
    EXPECT_FALSE(OpRegistry::instance().get(GetParam().op).gradient)
        << GetParam().op << " has a gradient rule, its case names no differentiable input";
    return;
  }
  for_each_dtype(gradient_matches_finite_differences);
}

TEST_P(OpTest, ThreadCountsGiveTheSameBytes) {
  for_each_dtype([](const OpCase& c, DType dtype, TaskDevice) {
    return same_bytes_for_thread_counts(c, dtype);
  });
}

TEST_P(OpTest, LaunchInPartsEqualsWhole) { for_each_dtype(parts_equal_whole); }

TEST_P(OpTest, CapturedEqualsEager) { for_each_dtype(captured_equals_eager); }

TEST_P(OpTest, RefusesWrongInput) { EXPECT_TRUE(refuses_wrong_input(GetParam())); }

INSTANTIATE_TEST_SUITE_P(All, OpTest, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(OpCases, NamesAreDistinctAndEachOpRefusesSomething) {
  std::set<std::string> names, refusing, ops;
  for (const OpCase& c : all_cases()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    ops.insert(c.op);
    if (!c.refusals.empty()) refusing.insert(c.op);
  }
  EXPECT_EQ(ops, refusing) << "an op without a refused wrong input";
}

}  // namespace

void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }

}  // namespace tr::test
