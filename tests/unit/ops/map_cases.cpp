// SPDX-License-Identifier: Apache-2.0
#include "op_cases.h"

namespace tr::test {
namespace {

const Shape kX{4, 5};
const TensorType kCounters = i64({8}), kStepInts = i64({16, 4});

std::vector<ShapeCase> elementwise_cases() {
  return {
      {"Fp16", "relu", {}, {f16(kX)}, {f16(kX)}, {}},
      {"Scalar", "relu", {}, {f32({})}, {f32({})}, {}},
      {"Integer", "relu", {}, {i32(kX)}, {}, {"x has dtype int32, expected fp32, fp16 or bf16"}},
      {"Good", "relu_backward", {}, {f32(kX), f32(kX)}, {f32(kX)}, {}},
      {"OtherShape",
       "relu_backward",
       {},
       {f32(kX), f32({5, 4})},
       {},
       {"y is fp32 [5, 4], expected fp32 [4, 5] (that of dy)"}},
      {"OtherDType",
       "silu_backward",
       {},
       {f16(kX), f32(kX)},
       {},
       {"x is fp32 [4, 5], expected fp16 [4, 5]"}},
      {"NegativeSlope",
       "leaky_relu",
       {{"alpha", -0.5}},
       {f32(kX)},
       {},
       {"alpha (slope below 0) is -0.5, expected at least 0"}},
      {"ZeroSlope", "leaky_relu", {{"alpha", 0.0}}, {f32(kX)}, {f32(kX)}, {}},
      {"ZeroBeta",
       "softplus",
       {{"alpha", 0.0}},
       {f32(kX)},
       {},
       {"alpha (beta) is 0, expected above 0"}},
      {"ZeroAlpha",
       "celu_backward",
       {{"alpha", 0.0}},
       {f32(kX), f32(kX)},
       {},
       {"is 0, expected above 0"}},
  };
}

std::vector<ShapeCase> dropout_cases() {
  return {
      {"Plan", "dropout", {{"p", 0.5}}, {f32(kX)}, {f32(kX)}, {}},
      {"Graph", "dropout", {{"p", 0.0}}, {f16(kX), kCounters, kStepInts}, {f16(kX)}, {}},
      {"Plan", "rrelu", {}, {f32(kX)}, {f32(kX)}, {}},
      {"Graph", "rrelu", {}, {f16(kX), kCounters, kStepInts}, {f16(kX)}, {}},
      {"Good", "rrelu_backward", {}, {f16(kX), f16(kX), kCounters, kStepInts}, {f16(kX)}, {}},
      {"Mean", "rrelu_eval", {}, {f16(kX)}, {f16(kX)}, {}},
      {"Slopes", "rrelu_eval", {{"lower", 0.5}}, {f32(kX)}, {}, {"the slopes are 0.5 to 0.333"}},
      {"OtherX",
       "rrelu_backward",
       {},
       {f16(kX), f32(kX), kCounters, kStepInts},
       {},
       {"x is fp32 [4, 5], expected fp16 [4, 5]"}},
      {"Certain",
       "alpha_dropout_backward",
       {{"p", 1.0}},
       {f16(kX), kCounters, kStepInts},
       {},
       {"p is 1, expected 0 <= p < 1"}},
      {"Slopes", "rrelu", {{"lower", 0.5}}, {f32(kX)}, {}, {"the slopes are 0.5 to 0.333"}},
      {"Graph", "alpha_dropout", {{"p", 0.5}}, {f16(kX), kCounters, kStepInts}, {f16(kX)}, {}},
      {"Good",
       "alpha_dropout_backward",
       {{"p", 0.5}},
       {f16(kX), kCounters, kStepInts},
       {f16(kX)},
       {}},
      {"Half",
       "alpha_dropout",
       {{"p", 0.5}},
       {f32(kX), kCounters},
       {},
       {"2 inputs, expected x, counters"}},
      {"Certain", "dropout", {{"p", 1.0}}, {f32(kX)}, {}, {"p is 1, expected 0 <= p < 1"}},
      {"Per",
       "dropout",
       {{"p", 0.5}, {"per", std::string("row")}},
       {f32(kX)},
       {},
       {"per is 'row', expected element, channel or sample"}},
      {"Negative", "dropout", {{"p", -0.1}}, {f32(kX)}, {}, {"p is -0.1, expected 0 <= p < 1"}},
      {"NotCounters",
       "dropout",
       {{"p", 0.5}},
       {f32(kX), i64({7}), kStepInts},
       {},
       {"counters is int64 [7], expected int64 [8]"}},
      {"NotStepInts",
       "dropout",
       {{"p", 0.5}},
       {f32(kX), kCounters, i64({16, 3})},
       {},
       {"step_ints [capacity, 4]"}},
      {"Good", "dropout_backward", {{"p", 0.5}}, {f16(kX), kCounters, kStepInts}, {f16(kX)}, {}},
      {"Nan", "dropout_backward", {{"p", 2.0}}, {f16(kX), kCounters, kStepInts}, {}, {"p is 2"}},
  };
}

std::vector<ShapeCase> view_cases() {
  return {
      {"Image", "flatten", {}, {f16({2, 7, 7, 3})}, {f16({2, 147})}, {}},
      {"Flat", "flatten", {}, {f32(kX)}, {f32(kX)}, {}},
      {"Vector", "flatten", {}, {f32({5})}, {}, {"x has shape [5], expected [N, ...]"}},
      {"Good", "reshape_like", {}, {f16({2, 12}), f32({2, 2, 3, 2})}, {f16({2, 2, 3, 2})}, {}},
      {"OtherCount",
       "reshape_like",
       {},
       {f16({2, 12}), f32({2, 5})},
       {},
       {"x has shape [2, 12], expected as many elements as [2, 5]"}},
      {"Good", "identity", {}, {i32(kX)}, {i32(kX)}, {}},
      {"Good", "stop_gradient", {}, {f32(kX)}, {f32(kX)}, {}},
  };
}

std::vector<ShapeCase> arithmetic_cases() {
  return {
      {"Same", "add", {}, {f32(kX), f32(kX)}, {f32(kX)}, {}},
      {"Row", "add", {}, {f16(kX), f16({5})}, {f16(kX)}, {}},
      {"Column", "add", {}, {f32(kX), f32({4, 1})}, {f32(kX)}, {}},
      {"Scalar", "add", {}, {f32(kX), f32({})}, {f32(kX)}, {}},
      {"Larger", "add", {}, {f32({5}), f32(kX)}, {f32(kX)}, {}},
      {"Crossed", "add", {}, {f32({4, 1}), f32({1, 5})}, {f32(kX)}, {}},
      {"Apart",
       "add",
       {},
       {f32({4}), f32(kX)},
       {},
       {"b has shape [4, 5], expected [4] (that of a), or axes of size 1"}},
      {"Mixed", "add", {}, {f32(kX), f16(kX)}, {}, {"b has dtype fp16, expected fp32 (that of a)"}},
      {"Channels", "mul", {}, {f16({2, 3, 3, 5}), f16({2, 1, 1, 5})}, {f16({2, 3, 3, 5})}, {}},
      {"Apart", "mul", {}, {f32({4}), f32(kX)}, {}, {"b has shape [4, 5], expected [4]"}},
      {"Row", "mul_reduce", {}, {f16(kX), f16(kX), f16({5})}, {f16({5})}, {}},
      {"Factors",
       "mul_reduce",
       {},
       {f32(kX), f32({5, 1}), f32({5})},
       {},
       {"b has shape [5, 1], expected one that broadcasts to a [4, 5]"}},
      {"Repeated", "mul_reduce", {}, {f32(kX), f32({4, 1}), f32({5})}, {f32({5})}, {}},
      {"Row", "reduce_to", {}, {f32(kX), f32({1, 5})}, {f32({1, 5})}, {}},
      {"Converts", "reduce_to", {}, {f32(kX), f16({5})}, {f16({5})}, {}},
      {"NotBroadcast",
       "reduce_to",
       {},
       {f32(kX), f32({4})},
       {},
       {"like has shape [4]", "broadcasts to x [4, 5]"}},
      {"Good", "cast", {{"dtype", std::string("bf16")}}, {f32(kX)}, {{kX, DType::BF16}}, {}},
      {"ToInteger",
       "cast",
       {{"dtype", std::string("int8")}},
       {f32(kX)},
       {},
       {"dtype is int8, expected fp32, fp16 or bf16"}},
      {"Unknown", "cast", {{"dtype", std::string("fp23")}}, {f32(kX)}, {}, {"fp23"}},
  };
}

std::vector<ShapeCase> concat_cases() {
  return {
      {"Channels", "concat", {}, {f32({2, 3, 3, 4}), f32({2, 3, 3, 6})}, {f32({2, 3, 3, 10})}, {}},
      {"One", "concat", {{"axis", std::int64_t{1}}}, {f32(kX)}, {f32(kX)}, {}},
      {"Batch",
       "concat",
       {{"axis", std::int64_t{-2}}},
       {f32(kX), f32(kX)},
       {},
       {"axis is -2, the batch of x0 [4, 5]; expected another one"}},
      {"OutOfRange",
       "concat",
       {{"axis", std::int64_t{2}}},
       {f32(kX), f32(kX)},
       {},
       {"axis is 2, expected -2 to 1"}},
      {"OtherRows",
       "concat",
       {},
       {f32(kX), f32({3, 5})},
       {},
       {"x1 has shape [3, 5], expected [4, 5] (that of x0) on all axes but 1"}},
      {"OtherRank", "concat", {}, {f32(kX), f32({4, 1, 5})}, {}, {"x1 has shape [4, 1, 5]"}},
      {"OtherDType",
       "concat",
       {},
       {f32(kX), f16(kX)},
       {},
       {"x1 has dtype fp16, expected fp32 (that of x0)"}},
      {"Good",
       "concat_backward",
       {{"num_inputs", std::int64_t{2}}},
       {f32({4, 8}), f32(kX), f32({4, 3})},
       {f32(kX), f32({4, 3})},
       {}},
      {"Short",
       "concat_backward",
       {{"num_inputs", std::int64_t{2}}},
       {f32({4, 7}), f32(kX), f32({4, 3})},
       {},
       {"dy is fp32 [4, 7], expected fp32 [4, 8] (the joined inputs)"}},
      {"Count",
       "concat_backward",
       {{"num_inputs", std::int64_t{3}}},
       {f32({4, 8}), f32(kX), f32({4, 3})},
       {},
       {"2 inputs after dy, expected num_inputs = 3"}},
  };
}

std::vector<ShapeCase> channel_padding_cases() {
  return {
      {"Good", "channel_padding", {}, {f16({2, 4, 4, 3})}, {f16({2, 4, 4, 8})}, {}},
      {"Full",
       "channel_padding",
       {{"multiple", std::int64_t{4}}},
       {f16({2, 4, 4, 8})},
       {f16({2, 4, 4, 8})},
       {}},
      {"Zero",
       "channel_padding",
       {{"multiple", std::int64_t{0}}},
       {f16({2, 4, 4, 3})},
       {},
       {"multiple is 0"}},
      {"NoImage",
       "channel_padding",
       {},
       {f16(kX)},
       {},
       {"x has shape [4, 5], expected [N, H, W, C]"}},
      {"Good",
       "channel_padding_backward",
       {},
       {f16({2, 4, 4, 8}), f16({2, 4, 4, 3})},
       {f16({2, 4, 4, 3})},
       {}},
      {"Fewer",
       "channel_padding_backward",
       {},
       {f16({2, 4, 4, 2}), f16({2, 4, 4, 3})},
       {},
       {"dy has shape [2, 4, 4, 2], expected [2, 4, 4, 3] (that of x) with channels added"}},
  };
}

}  // namespace

namespace {

std::vector<ShapeCase> normalize_image_cases() {
  const std::vector<std::int64_t> ones(3, 0x3f800000);  // 1.0f
  const auto attrs = [&](const char* dtype, std::int64_t channels) {
    return Attrs{{"dtype", std::string(dtype)},
                 {"channels", channels},
                 {"mean_bits", ones},
                 {"std_bits", ones}};
  };
  const TensorType image = u8({5, 7, 9, 3}), tail = i32({5, 8});
  Attrs two = attrs("fp16", 0), wide = two;
  two.set("mean_bits", std::vector<std::int64_t>(2, 0));
  wide.set("std_bits", std::vector<std::int64_t>{0, -1, 0});
  return {
      {"AsTheyAre", "normalize_image", attrs("fp32", 0), {image, tail}, {f32({5, 7, 9, 3})}, {}},
      {"MoreChannels", "normalize_image", attrs("fp16", 8), {image, tail}, {f16({5, 7, 9, 8})}, {}},
      {"Floats",
       "normalize_image",
       attrs("fp16", 0),
       {f32({5, 7, 9, 3}), tail},
       {},
       {"image has dtype fp32, expected uint8"}},
      {"Tail", "normalize_image", attrs("fp16", 0), {image, i32({4, 8})}, {}, {"tail", "[5, 8]"}},
      {"FewerChannels", "normalize_image", attrs("fp16", 2), {image, tail}, {}, {"channels is 2"}},
      {"ManyChannels",
       "normalize_image",
       attrs("fp16", 0),
       {u8({5, 7, 9, 33}), tail},
       {},
       {"33 channels, expected 1 to 32"}},
      {"Means", "normalize_image", two, {image, tail}, {}, {"mean_bits has 2 entries, expected 3"}},
      {"Bits", "normalize_image", wide, {image, tail}, {}, {"std_bits holds -1"}},
      {"Integers", "normalize_image", attrs("int32", 0), {image, tail}, {}, {"dtype is int32"}},
  };
}

}  // namespace

std::vector<ShapeCase> map_cases() {
  std::vector<ShapeCase> all;
  for (auto* family : {elementwise_cases, dropout_cases, view_cases, arithmetic_cases, concat_cases,
                       channel_padding_cases, normalize_image_cases}) {
    for (ShapeCase& c : family()) all.push_back(std::move(c));
  }
  return all;
}

}  // namespace tr::test
