// SPDX-License-Identifier: Apache-2.0
// Batch norm fused with its neighbours, and the convolution that leaves statistics behind.
#include "op_cases.h"

namespace tr::test {
namespace {

using Types = std::vector<TensorType>;
using Ints = std::vector<std::int64_t>;

const TensorType kNone{};

Types replaced(Types types, std::size_t i, const TensorType& type) {
  types[i] = type;
  return types;
}

const TensorType kX = f16({2, 4, 6, 8}), kHalf = f16({2, 2, 3, 8}), kC = f32({8});
const Types kNorm = {kX, kC, kC, kC, kC};

std::vector<ShapeCase> forward_cases() {
  const Attrs mask = {{"activation", std::string("relu")}, {"mask", true}};
  const Types out = {kX, kC, kC, kC, kC};
  Types residual = kNorm, statistics = kNorm;
  residual.push_back(kX);
  statistics.insert(statistics.end(), {kNone, f32({2, 8})});
  Types both = residual;
  both.insert(both.end(), {kNone, kC, kC, kC, kC});
  return {
      {"Plain", "bn_act", {}, kNorm, out, {}},
      {"Statistics", "bn_act", {}, statistics, out, {}},
      {"Mask", "bn_act", mask, residual, {kX, kC, kC, kC, kC, u8({48})}, {}},
      {"MaskAlone", "bn_act", mask, kNorm, {}, {"residual is missing"}},
      {"Residual",
       "bn_act",
       {},
       replaced(residual, 5, kHalf),
       {},
       {"residual is fp16", "that of x"}},
      {"Channels", "bn_act", {}, replaced(kNorm, 2, f32({7})), {}, {"bias", "one a channel of x"}},
      {"Sums", "bn_act", {}, replaced(statistics, 6, f32({8})), {}, {"statistics", "[2, 8]"}},
      {"NormalisedResidual", "bn_act", mask, both, {kX, kC, kC, kC, kC, u8({48})}, {}},
      {"ResidualMean", "bn_act", mask, replaced(both, 9, f32({7})), {}, {"residual_mean"}},
      {"Plain", "bn_statistics", {}, {kX, kC, kC}, {kC, kC, kC, kC}, {}},
      {"Mean", "bn_statistics", {}, {kX, f32({7}), kC}, {}, {"running_mean"}},
      {"Plain", "bn_eval_act", {}, residual, {kX}, {}},
      {"Residual", "bn_eval_act", {}, replaced(residual, 5, kHalf), {}, {"residual"}},
      {"Plain", "bn_pool", {}, kNorm, {kHalf, kC, kC, kC, kC, u8({24})}, {}},
      {"Odd", "bn_pool", {}, replaced(kNorm, 0, f16({2, 3, 6, 8})), {}, {"even height and width"}},
  };
}

std::vector<ShapeCase> backward_cases() {
  const Attrs residual = {{"residual", true}};
  const Types plain = {kX, kX, kC, kC, kC, kC};
  Types masked = plain, pooled = plain;
  masked.insert(masked.end(), {kX, u8({48})});
  pooled[0] = kHalf;
  pooled.push_back(u8({24}));
  const Attrs strided = {{"residual", true}, {"more_stride", Ints{3, 2}}};
  const Types rows = {f16({4, 8}), f16({4, 8}), kC, kC, kC, kC, f16({2, 8}), u8({4})};
  return {
      {"Plain", "bn_act_backward", {}, plain, {kX, kC, kC}, {}},
      {"Mask", "bn_act_backward", residual, masked, {kX, kC, kC, kX}, {}},
      {"OneGradient",
       "bn_act_backward",
       residual,
       replaced(masked, 6, kNone),
       {kX, kC, kC, kX},
       {}},
      {"SomePixels",
       "bn_act_backward",
       strided,
       replaced(masked, 6, f16({2, 2, 3, 8})),
       {kX, kC, kC, kX},
       {}},
      {"StridedWhole",
       "bn_act_backward",
       strided,
       masked,
       {},
       {"more is fp16", "[2, 2, 3, 8]", "multiples of more_stride"}},
      {"StridedRows", "bn_act_backward", strided, rows, {}, {"x has shape [4, 8]"}},
      {"NoStride",
       "bn_act_backward",
       {{"residual", true}, {"more_stride", Ints{0, 2}}},
       masked,
       {},
       {"more_stride is [0, 2]"}},
      {"OneStride",
       "bn_act_backward",
       {{"residual", true}, {"more_stride", Ints{2}}},
       masked,
       {},
       {"more_stride is [2]"}},
      {"NoMask", "bn_act_backward", residual, plain, {}, {"mask is missing"}},
      {"MaskBytes", "bn_act_backward", residual, replaced(masked, 7, u8({47})), {}, {"mask"}},
      {"Dy", "bn_act_backward", {}, replaced(plain, 0, kHalf), {}, {"dy is fp16", "that of x"}},
      {"Plain", "bn_pool_backward", {}, pooled, {kX, kC, kC}, {}},
      {"Dy", "bn_pool_backward", {}, replaced(pooled, 0, kX), {}, {"dy", "half of x"}},
      {"Index", "bn_pool_backward", {}, replaced(pooled, 6, u8({48})), {}, {"index"}},
  };
}

std::vector<ShapeCase> join_cases() {
  const Types join = {kX, kX, kC, kC, kC, u8({48}), kX, kC, kC, kC};
  Types more = join;
  more.push_back(kX);
  const Types out = {kX, kC, kC, kX, kC, kC};
  const Attrs halved = {{"more_stride", Ints{2, 2}}};
  return {
      {"Plain", "bn_join_backward", {}, join, out, {}},
      {"More", "bn_join_backward", {}, more, out, {}},
      {"SomePixels", "bn_join_backward", halved, replaced(more, 10, kHalf), out, {}},
      {"StridedWhole", "bn_join_backward", halved, more, {}, {"more", "multiples of more_stride"}},
      {"Mask", "bn_join_backward", {}, replaced(join, 5, u8({47})), {}, {"mask", "one bit"}},
      {"Other", "bn_join_backward", {}, replaced(join, 6, kHalf), {}, {"other_x", "that of x"}},
      {"Mean", "bn_join_backward", {}, replaced(join, 8, f32({7})), {}, {"other_mean"}},
  };
}

std::vector<ShapeCase> window_cases() {
  const std::vector<std::int64_t> three = {3, 3}, two = {2, 2}, one = {1, 1};
  const Attrs pool = {{"kernel", three}, {"stride", two}, {"padding", one}};
  const TensorType index = u8({2, 2, 3, 8});
  const Types back = {kHalf, kX, kC, kC, kC, kC, index};
  return {
      {"Plain", "bn_maxpool", pool, kNorm, {kHalf, kC, kC, kC, kC, index}, {}},
      {"Channels", "bn_maxpool", pool, replaced(kNorm, 1, f32({7})), {}, {"weight"}},
      {"Plain", "bn_maxpool_backward", pool, back, {kX, kC, kC}, {}},
      {"Dy", "bn_maxpool_backward", pool, replaced(back, 0, kX), {}, {"dy", "the pooled x"}},
      {"Index", "bn_maxpool_backward", pool, replaced(back, 6, u8({24})), {}, {"index"}},
  };
}

std::vector<ShapeCase> statistics_cases() {
  const Attrs conv = {{"out_channels", std::int64_t{5}},
                      {"kernel", std::vector<std::int64_t>{1, 1}}};
  const TensorType weight = f16({5, 1, 1, 8});
  return {
      {"Plain", "conv_statistics", conv, {kX, weight}, {f16({2, 4, 6, 5}), f32({2, 5})}, {}},
      {"Weight", "conv_statistics", conv, {kX, f16({5, 1, 1, 7})}, {}, {"weight has shape"}},
  };
}

std::vector<ShapeCase> first_conv_cases() {
  const std::vector<std::int64_t> three = {3, 3}, two = {2, 2}, one = {1, 1};
  const Attrs conv = {{"out_channels", std::int64_t{8}}, {"kernel", three}, {"padding", one}};
  Attrs pooled = conv;
  pooled.set("pool_kernel", three);
  pooled.set("pool_stride", two);
  pooled.set("pool_padding", one);
  const TensorType picture = f16({2, 4, 6, 3}), index = u8({2, 2, 3, 8});
  const TensorType weight = f16({8, 3, 3, 3}), mask = u8({48}), moments = f32({28, 27});
  const Types in = {picture, weight, kC, kC, kC, kC};
  const Types back = {kX, mask, kC, kC, kC, moments, weight, picture};
  const Types pool = {kHalf, kX, kC, kC, kC, kC, index, picture};
  const Types out = {f32({8, 3, 3, 3}), kC, kC};
  const std::string act = "conv_bn_act", dact = "conv_bn_act_dweight",
                    max = "bn_maxpool_conv_dweight";
  Attrs grouped = conv;
  grouped.set("groups", std::int64_t{3});
  grouped.set("out_channels", std::int64_t{9});
  return {
      {"Plain", act, conv, in, {kX, kC, kC, kC, kC, mask, moments}, {}},
      {"Weight", act, conv, replaced(in, 1, f32({8, 3, 3, 3})), {}, {"conv_weight is fp32"}},
      {"Bias", act, conv, replaced(in, 3, f32({7})), {}, {"bias", "one a channel of y"}},
      {"Groups", act, grouped, in, {}, {"groups is 3"}},
      {"Plain", dact, conv, back, out, {}},
      {"Picture", dact, conv, replaced(back, 7, f16({2, 4, 7, 3})), {}, {"dy", "y of the convol"}},
      {"Mask", dact, conv, replaced(back, 1, u8({47})), {}, {"mask", "one bit"}},
      {"Rstd", dact, conv, replaced(back, 4, f32({7})), {}, {"rstd", "one a channel of y"}},
      {"Moments", dact, conv, replaced(back, 5, f32({27, 27})), {}, {"moments", "windows"}},
      {"Plain", max, pooled, pool, out, {}},
      {"Dy", max, pooled, replaced(pool, 0, kX), {}, {"dy", "the pooled x"}},
      {"Index", max, pooled, replaced(pool, 6, u8({24})), {}, {"index"}},
      {"Picture", max, pooled, replaced(pool, 7, f32({2, 4, 6, 3})), {}, {"x is fp16"}},
  };
}

}  // namespace

std::vector<ShapeCase> fused_norm_cases() {
  std::vector<ShapeCase> all = forward_cases();
  for (const auto& more :
       {backward_cases(), join_cases(), window_cases(), statistics_cases(), first_conv_cases()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace tr::test
