// SPDX-License-Identifier: Apache-2.0
#include "graph/param_layout.h"

#include <gtest/gtest.h>

#include "renaissance/core/error.h"

namespace tr {
namespace {

Param param(const std::string& name, std::int64_t elements, int layer,
            ParamKind kind = ParamKind::WEIGHT) {
  Param p;
  p.name = name;
  p.spec.name = name.substr(name.rfind('.') + 1);
  p.spec.type = {Shape{elements}, DType::FP32};
  p.spec.kind = kind;
  p.layer = layer;
  return p;
}

ArchPlan small_plan() {
  ArchPlan plan;
  plan.params = {param("0.weight", 100, 0),
                 param("0.bias", 10, 0, ParamKind::BIAS),
                 param("1.weight", 10, 1, ParamKind::NORM_WEIGHT),
                 param("1.bias", 10, 1, ParamKind::NORM_BIAS),
                 param("1.running_mean", 10, 1, ParamKind::BUFFER),
                 param("1.running_var", 10, 1, ParamKind::BUFFER),
                 param("2.weight", 300, 2)};
  return plan;
}

const Segment& segment_of(const ParamLayout& layout, int param) {
  for (const Segment& s : layout.segments) {
    if (s.param == param) return s;
  }
  throw InvalidArgument("no segment");
}

TEST(ParamLayout, LastLayerComesFirstAtAlignedOffsets) {
  const ParamLayout layout = layout_params(small_plan(), {});
  EXPECT_EQ(layout.element_offset, (std::vector<std::int64_t>{640, 768, 384, 512, -1, -1, 0}));
  EXPECT_EQ(layout.range_elements, 896);
  EXPECT_EQ(layout.buffer_offset, (std::vector<std::int64_t>{-1, -1, -1, -1, 0, 128, -1}));
  EXPECT_EQ(layout.buffer_elements, 256);
  using Buckets = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(layout.buckets, (Buckets{{0, 896}}));
}

TEST(ParamLayout, SegmentsCoverEachParameterWithoutItsPadding) {
  const ParamLayout layout = layout_params(small_plan(), {});
  ASSERT_EQ(layout.segments.size(), 5u);
  std::int64_t end = 0;
  for (const Segment& s : layout.segments) {
    EXPECT_GE(s.begin, end);
    EXPECT_EQ(s.begin % kParamAlignment, 0);
    end = s.begin + s.count;
  }
  EXPECT_LE(end, layout.range_elements);
  EXPECT_EQ(segment_of(layout, 6).count, 300);
}

TEST(ParamLayout, BiasesAndNormParametersDoNotDecayByDefault) {
  const ParamLayout layout = layout_params(small_plan(), {});
  EXPECT_EQ(segment_of(layout, 0).decay_scale, 1.0f);
  for (const int p : {1, 2, 3}) EXPECT_EQ(segment_of(layout, p).decay_scale, 0.0f) << p;
  EXPECT_EQ(segment_of(layout, 6).decay_scale, 1.0f);
}

TEST(ParamLayout, FirstMatchingRuleWins) {
  GraphOptions options;
  options.groups = {{.match = "0.b", .lr_scale = 2, .decay = true},
                    {.match = "0.", .frozen = true},
                    {.match = "2.", .decay = false}};
  EXPECT_EQ(num_param_groups(options), 4);
  const ParamLayout layout = layout_params(small_plan(), options);
  const Segment &weight0 = segment_of(layout, 0), &bias0 = segment_of(layout, 1);
  EXPECT_EQ(bias0.group, 0);
  EXPECT_EQ(bias0.lr_scale, 2.0f);
  EXPECT_EQ(bias0.decay_scale, 1.0f);
  EXPECT_EQ(bias0.frozen, 0);
  EXPECT_EQ(weight0.group, 1);
  EXPECT_EQ(weight0.frozen, 1);
  EXPECT_EQ(weight0.decay_scale, 1.0f);
  EXPECT_EQ(segment_of(layout, 6).group, 2);
  EXPECT_EQ(segment_of(layout, 6).decay_scale, 0.0f);
  EXPECT_EQ(segment_of(layout, 2).group, 3);
}

TEST(ParamLayout, RatesOfAParameterComeOnTopOfItsRules) {
  GraphOptions options;
  options.groups = {{.match = "0.", .lr_scale = 2}};
  options.num_rate_columns = 2;
  options.rates = {{"0.weight", {.lr_scale = 0.5f, .column = 1, .decays = true}},
                   {"0.bias", {.column = 1}},
                   {"1.weight", {.column = 0, .decays = true}},
                   {"2.weight", {.lr_scale = 3, .decays = false}}};
  EXPECT_EQ(num_param_groups(options), 4);
  const ParamLayout layout = layout_params(small_plan(), options);
  const auto expect = [&](int param, int group, float lr_scale, float decay_scale) {
    const Segment& segment = segment_of(layout, param);
    EXPECT_EQ(segment.group, group) << param;
    EXPECT_EQ(segment.lr_scale, lr_scale) << param;
    EXPECT_EQ(segment.decay_scale, decay_scale) << param;
  };
  expect(0, 3, 1, 1);
  expect(1, 3, 2, 0);
  expect(2, 2, 1, 1);
  expect(6, 1, 3, 0);
}

TEST(ParamLayout, BucketsAreCutBetweenParametersInCompletionOrder) {
  GraphOptions options;
  options.world_size = 2;
  options.bucket_bytes = 256 * 4;
  const ParamLayout layout = layout_params(small_plan(), options);
  using Buckets = std::vector<std::pair<std::int64_t, std::int64_t>>;
  // 2.weight (384 padded elements) is larger than a bucket and one of its own.
  EXPECT_EQ(layout.buckets, (Buckets{{0, 384}, {384, 640}, {640, 896}}));
  options.bucket_bytes = 1;
  EXPECT_EQ(layout_params(small_plan(), options).buckets.size(), 5u);
  options.bucket_bytes = 1 << 20;
  EXPECT_EQ(layout_params(small_plan(), options).buckets, (Buckets{{0, 896}}));
}

TEST(ParamLayout, ModelWithoutParametersIsEmpty) {
  const ParamLayout layout = layout_params({}, {});
  EXPECT_EQ(layout.range_elements, 0);
  EXPECT_TRUE(layout.buckets.empty());
  EXPECT_TRUE(layout.segments.empty());
}

TEST(ParamLayout, RefusesBadBucketsAndDtypes) {
  GraphOptions options;
  options.bucket_bytes = 0;
  EXPECT_THROW(layout_params(small_plan(), options), InvalidArgument);
  ArchPlan plan = small_plan();
  plan.params[0].spec.type.dtype = DType::FP16;
  try {
    layout_params(plan, {});
    FAIL() << "an fp16 master weight was accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(
        std::string(error.what()).find("0.weight: the parameter is fp16 [100], expected fp32"),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tr
