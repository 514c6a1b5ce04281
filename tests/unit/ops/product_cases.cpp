// SPDX-License-Identifier: Apache-2.0
#include "op_cases.h"

namespace tr::test {
namespace {

using Ints = std::vector<std::int64_t>;

Attrs conv(std::int64_t out, Ints kernel, Ints stride = {1, 1}, Ints padding = {0, 0}) {
  return {{"out_channels", out}, {"kernel", kernel}, {"stride", stride}, {"padding", padding}};
}

Attrs pool(Ints kernel, Ints stride, Ints padding = {0, 0}) {
  return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}};
}

std::vector<ShapeCase> fc_cases() {
  const Attrs plain = {{"bias", false}};
  return {
      {"Bias",
       "fc",
       {{"out_features", std::int64_t{3}}},
       {f32({7, 5}), f32({3, 5}), f32({3})},
       {f32({7, 3})},
       {}},
      {"Sequence", "fc", plain, {f16({7, 2, 5}), f16({3, 5})}, {f16({7, 2, 3})}, {}},
      {"Vector",
       "fc",
       plain,
       {f32({5}), f32({3, 5})},
       {},
       {"x has shape [5], expected [N, ..., in_features]"}},
      {"WrongWeight",
       "fc",
       plain,
       {f32({7, 784}), f32({10, 512})},
       {},
       {"weight has shape [10, 512], expected [10, 784] (out_features and the last axis of x [7, "
        "784])"}},
      {"OutFeatures",
       "fc",
       {{"out_features", std::int64_t{4}}, {"bias", false}},
       {f32({7, 5}), f32({3, 5})},
       {},
       {"weight has shape [3, 5], expected [4, 5]"}},
      {"MixedDType",
       "fc",
       plain,
       {f16({7, 5}), f32({3, 5})},
       {},
       {"weight has dtype fp32, expected fp16 (that of x)"}},
      {"LowBias",
       "fc",
       {},
       {f16({7, 5}), f16({3, 5}), f16({3})},
       {},
       {"bias has dtype fp16, expected fp32"}},
      {"LongBias",
       "fc",
       {},
       {f32({7, 5}), f32({3, 5}), f32({4})},
       {},
       {"bias has shape [4], expected [3]"}},
      {"NoBias", "fc", {}, {f32({7, 5}), f32({3, 5})}, {}, {"bias is missing, expected it given"}},
      {"Good", "fc_dx", {}, {f16({7, 3}), f16({3, 5})}, {f16({7, 5})}, {}},
      {"Gate",
       "fc_dx",
       {{"activation", std::string("relu")}},
       {f16({7, 3}), f16({3, 5}), f16({7, 5})},
       {f16({7, 5})},
       {}},
      {"WrongRows",
       "fc_dx",
       {},
       {f16({7, 4}), f16({3, 5})},
       {},
       {"dy has shape [7, 4], expected [N, ..., 3]"}},
      {"GateMissing",
       "fc_dx",
       {{"activation", std::string("relu")}},
       {f16({7, 3}), f16({3, 5})},
       {},
       {"gate is missing, expected it given (activation 'relu')"}},
      {"WrongGate",
       "fc_dx",
       {{"activation", std::string("relu")}},
       {f16({7, 3}), f16({3, 5}), f16({7, 3})},
       {},
       {"gate is fp16 [7, 3], expected fp16 [7, 5]"}},
      {"Bias", "fc_dweight", {}, {f16({7, 3}), f16({7, 5})}, {f32({3, 5}), f32({3})}, {}},
      {"NoBias", "fc_dweight", plain, {f32({7, 2, 3}), f32({7, 2, 5})}, {f32({3, 5})}, {}},
      {"OtherRows",
       "fc_dweight",
       plain,
       {f32({7, 3}), f32({6, 5})},
       {},
       {"x has shape [6, 5]", "rows of dy [7, 3]"}},
  };
}

std::vector<ShapeCase> conv_cases() {
  const TensorType x = f16({2, 8, 9, 4});
  Attrs depthwise = conv(0, {3, 3}, {2, 2}, {1, 1});
  depthwise.set("groups", std::int64_t{0});
  Attrs grouped = conv(6, {3, 1});
  grouped.set("groups", std::int64_t{2}).set("dilation", Ints{2, 1}).set("bias", true);
  Attrs widened = conv(0, {1, 1});
  widened.set("multiplier", std::int64_t{6});
  Attrs odd = conv(6, {1, 1});
  odd.set("groups", std::int64_t{3});
  return {
      {"Same",
       "conv",
       conv(5, {3, 3}, {1, 1}, {1, 1}),
       {x, f16({5, 3, 3, 4})},
       {f16({2, 8, 9, 5})},
       {}},
      {"Strided", "conv", conv(5, {3, 3}, {2, 2}), {x, f16({5, 3, 3, 4})}, {f16({2, 3, 4, 5})}, {}},
      {"Depthwise", "conv", depthwise, {x, f16({4, 3, 3, 1})}, {f16({2, 4, 5, 4})}, {}},
      {"Grouped", "conv", grouped, {x, f16({6, 3, 1, 2}), f32({6})}, {f16({2, 4, 9, 6})}, {}},
      {"Widened", "conv", widened, {x, f16({24, 1, 1, 4})}, {f16({2, 8, 9, 24})}, {}},
      {"NoImage",
       "conv",
       conv(5, {3, 3}),
       {f32({2, 784}), f32({5, 3, 3, 4})},
       {},
       {"x has shape [2, 784], expected [N, H, W, C]"}},
      {"WrongWeight",
       "conv",
       conv(5, {3, 3}),
       {x, f16({5, 3, 3, 3})},
       {},
       {"weight has shape [5, 3, 3, 3], expected [5, 3, 3, 4] ([out_channels, kernel, channels of "
        "x / groups])"}},
      {"Groups",
       "conv",
       odd,
       {x, f16({6, 1, 1, 4})},
       {},
       {"groups is 3, expected a divisor of the 4 channels of x"}},
      {"LargeKernel",
       "conv",
       conv(5, {11, 3}, {1, 1}, {1, 1}),
       {x, f16({5, 11, 3, 4})},
       {},
       {"kernel covers 11 cells along height, expected at most 10"}},
      {"ZeroStride",
       "conv",
       conv(5, {3, 3}, {1, 0}),
       {x, f16({5, 3, 3, 4})},
       {},
       {"stride is 0 along width"}},
      {"Pair",
       "conv",
       conv(5, {3}),
       {x, f16({5, 3, 3, 4})},
       {},
       {"kernel has 1 numbers, expected 2"}},
      {"Good",
       "conv_dx",
       conv(5, {3, 3}, {2, 2}),
       {f16({2, 3, 4, 5}), f16({5, 3, 3, 4}), x},
       {x},
       {}},
      {"WrongDy",
       "conv_dx",
       conv(5, {3, 3}, {2, 2}),
       {f16({2, 4, 4, 5}), f16({5, 3, 3, 4}), x},
       {},
       {"dy has shape [2, 4, 4, 5], expected [2, 3, 4, 5] (that of y)"}},
      {"Bias", "conv_dweight", grouped, {f16({2, 4, 9, 6}), x}, {f32({6, 3, 1, 2}), f32({6})}, {}},
      {"NoBias",
       "conv_dweight",
       conv(5, {3, 3}, {2, 2}),
       {f16({2, 3, 4, 5}), x},
       {f32({5, 3, 3, 4})},
       {}},
      {"WrongDy",
       "conv_dweight",
       conv(5, {3, 3}),
       {f16({2, 3, 4, 5}), x},
       {},
       {"dy has shape [2, 3, 4, 5]"}},
  };
}

std::vector<ShapeCase> pool_cases() {
  const TensorType x = f16({2, 7, 8, 3});
  Attrs ceil = pool({2, 2}, {2, 2});
  ceil.set("ceil_mode", true);
  Attrs ceil_padded = pool({2, 2}, {2, 2}, {1, 1});
  ceil_padded.set("ceil_mode", true);
  return {
      {"Good", "maxpool", pool({2, 2}, {2, 2}), {x}, {f16({2, 3, 4, 3}), u8({2, 3, 4, 3})}, {}},
      {"Padded",
       "maxpool",
       pool({3, 3}, {2, 2}, {1, 1}),
       {x},
       {f16({2, 4, 4, 3}), u8({2, 4, 4, 3})},
       {}},
      {"Ceil", "maxpool", ceil, {x}, {f16({2, 4, 4, 3}), u8({2, 4, 4, 3})}, {}},
      {"CeilPadded",
       "maxpool",
       ceil_padded,
       {f16({1, 4, 5, 3})},
       {f16({1, 3, 3, 3}), u8({1, 3, 3, 3})},
       {}},
      {"Padding",
       "maxpool",
       pool({2, 2}, {2, 2}, {2, 1}),
       {x},
       {},
       {"padding is 2 along height, expected at most 1"}},
      {"Kernel",
       "maxpool",
       pool({8, 2}, {1, 1}),
       {x},
       {},
       {"kernel is 8 along height, expected at most 7"}},
      {"Window",
       "maxpool",
       pool({17, 16}, {1, 1}),
       {f32({1, 20, 20, 1})},
       {},
       {"kernel [17, 16] has 272 cells"}},
      {"Good",
       "maxpool_backward",
       pool({2, 2}, {2, 2}),
       {f16({2, 3, 4, 3}), u8({2, 3, 4, 3}), x},
       {x},
       {}},
      {"Index",
       "maxpool_backward",
       pool({2, 2}, {2, 2}),
       {f16({2, 3, 4, 3}), i32({2, 3, 4, 3}), x},
       {},
       {"index is int32 [2, 3, 4, 3], expected uint8 [2, 3, 4, 3]"}},
      {"Good", "avgpool", pool({7, 8}, {1, 1}), {x}, {f16({2, 1, 1, 3})}, {}},
      {"Vector", "avgpool", pool({2, 2}, {1, 1}), {f32({4, 4})}, {}, {"expected [N, H, W, C]"}},
      {"Good", "avgpool_backward", pool({7, 8}, {1, 1}), {f16({2, 1, 1, 3}), x}, {x}, {}},
      {"WrongDy",
       "avgpool_backward",
       pool({7, 8}, {1, 1}),
       {f16({2, 1, 2, 3}), x},
       {},
       {"dy has shape [2, 1, 2, 3]"}},
      {"Good", "gap", {}, {x}, {f16({2, 1, 1, 3})}, {}},
      {"Flat", "gap", {}, {f32({2, 3})}, {}, {"x has shape [2, 3], expected [N, H, W, C]"}},
      {"Good", "gap_backward", {}, {f16({2, 1, 1, 3}), x}, {x}, {}},
      {"WrongDy",
       "gap_backward",
       {},
       {f16({2, 3}), x},
       {},
       {"dy has shape [2, 3], expected [2, 1, 1, 3]"}},
  };
}

std::vector<ShapeCase> norm_cases() {
  const TensorType x = f16({2, 4, 4, 3}), c = f32({3});
  return {
      {"Image", "bn", {}, {x, c, c, c, c}, {x, c, c, c, c}, {}},
      {"Rows", "bn", {}, {f32({5, 3}), c, c, c, c}, {f32({5, 3}), c, c, c, c}, {}},
      {"OneValue",
       "bn",
       {},
       {f32({1, 3}), c, c, c, c},
       {},
       {"x has shape [1, 3], one value a channel"}},
      {"Channels",
       "bn",
       {},
       {x, c, f32({4}), c, c},
       {},
       {"bias is fp32 [4], expected fp32 [3] (one a channel of x)"}},
      {"Eps", "bn", {{"eps", 0.0}}, {x, c, c, c, c}, {}, {"eps is 0, expected a positive number"}},
      {"Momentum",
       "bn",
       {{"momentum", 1.5}},
       {x, c, c, c, c},
       {},
       {"momentum is 1.5, expected 0 < momentum <= 1"}},
      {"OneValue", "bn_eval", {}, {f32({1, 3}), c, c, c, c}, {f32({1, 3})}, {}},
      {"Channels",
       "bn_eval",
       {},
       {x, f32({4}), c, c, c},
       {},
       {"weight is fp32 [4], expected fp32 [3]"}},
      {"Good", "bn_backward", {}, {x, x, c, c, c}, {x, c, c}, {}},
      {"Mean",
       "bn_backward",
       {},
       {x, x, c, f32({2}), c},
       {},
       {"mean is fp32 [2], expected fp32 [3]"}},
  };
}

}  // namespace

std::vector<ShapeCase> product_cases() {
  std::vector<ShapeCase> all = fc_cases();
  for (auto* family : {conv_cases, pool_cases, norm_cases}) {
    for (ShapeCase& c : family()) all.push_back(std::move(c));
  }
  return all;
}

}  // namespace tr::test
