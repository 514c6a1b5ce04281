// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "op/op_harness.h"

namespace tr::test {
namespace {

using Ints = std::vector<std::int64_t>;

struct ConvCase {
  std::string name;
  Shape x;
  std::int64_t out = 0;  // 0: multiplier times the channels of x
  ref::Window window;
  bool bias = false;
  std::int64_t groups = 1;  // 0: one a channel
  std::int64_t multiplier = 1;
};

Ints ints(const ref::Pair& pair) { return {pair[0], pair[1]}; }

OpCase conv_case(const ConvCase& row) {
  const std::int64_t channels = row.x.back();
  const std::int64_t out = row.out > 0 ? row.out : row.multiplier * channels;
  const std::int64_t groups = row.groups > 0 ? row.groups : channels;
  const std::int64_t cells = row.window.kernel[0] * row.window.kernel[1];
  OpCase c{.name = "conv_" + row.name, .op = "conv"};
  c.attrs = {{"out_channels", row.out},
             {"multiplier", row.multiplier},
             {"groups", row.groups},
             {"kernel", ints(row.window.kernel)},
             {"stride", ints(row.window.stride)},
             {"padding", ints(row.window.padding)},
             {"dilation", ints(row.window.dilation)},
             {"bias", row.bias}};
  const Shape weight{out, row.window.kernel[0], row.window.kernel[1], channels / groups};
  c.inputs = {Tensor::uniform(row.x, -1, 1, 1), Tensor::uniform(weight, -1, 1, 2),
              row.bias ? Tensor::uniform({out}, -1, 1, 3) : Tensor()};
  c.forward = [window = row.window, groups](const std::vector<Array>& in) {
    return ref::conv(in[0], in[1], in.size() > 2 ? &in[2] : nullptr, window, groups);
  };
  c.differentiable = {0, 1, 2};
  c.low = {0, 1};
  if (row.bias) c.roundings = 2;  // a GPU adds the bias to a result of 16 bits, as autocast does
  c.summed =
      std::max({cells * channels / groups, cells * out / groups, row.x.num_elements() / channels});
  c.refusals = {
      {"weight of other channels",
       {c.inputs[0], Tensor::zeros(weight.with_dim(-1, channels / groups + 1)), c.inputs[2]},
       c.attrs,
       {"weight has shape", "expected"}},
      {"integers", {c.inputs[0].to(DType::INT32), c.inputs[1], c.inputs[2]}, c.attrs, {"int32"}}};
  return c;
}

std::vector<OpCase> cases_of(const std::vector<ConvCase>& rows) {
  std::vector<OpCase> cases;
  for (const ConvCase& row : rows) cases.push_back(conv_case(row));
  return cases;
}

}  // namespace

std::vector<OpCase> conv_cases() {
  return cases_of({
      {"one", {1, 1, 1, 1}, 1, {}},
      {"point", {2, 5, 4, 7}, 33, {}, true},
      {"point_strided", {2, 5, 6, 4}, 5, {.stride = {2, 2}}},
      {"same", {2, 5, 6, 3}, 5, {.kernel = {3, 3}, .padding = {1, 1}}, true},
      {"odd_channels", {2, 4, 4, 33}, 7, {.kernel = {3, 3}, .padding = {1, 1}}},
      {"stem", {1, 11, 10, 3}, 4, {.kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}}},
      {"stride3", {2, 8, 7, 4}, 6, {.kernel = {3, 3}, .stride = {3, 3}}},
      {"even", {2, 6, 5, 3}, 4, {.kernel = {2, 2}, .stride = {2, 2}}},
      {"even_padded", {1, 5, 5, 3}, 4, {.kernel = {4, 4}, .padding = {1, 1}}, true},
      {"uneven",
       {2, 7, 6, 3},
       4,
       {.kernel = {3, 5}, .stride = {2, 1}, .padding = {0, 2}, .dilation = {1, 1}}},
      {"dilated", {2, 8, 9, 3}, 4, {.kernel = {3, 3}, .padding = {2, 3}, .dilation = {2, 3}}},
      {"far_padding", {2, 3, 3, 2}, 3, {.padding = {1, 1}}},
      {"groups", {2, 5, 5, 6}, 4, {.kernel = {3, 3}, .padding = {1, 1}}, true, 2},
      {"groups_of_odd", {2, 5, 5, 9}, 15, {.kernel = {3, 3}, .stride = {2, 2}}, false, 3},
      {"depthwise", {2, 6, 5, 8}, 0, {.kernel = {3, 3}, .padding = {1, 1}}, true, 0},
      {"depthwise_odd",
       {1, 7, 7, 5},
       0,
       {.kernel = {5, 5}, .stride = {2, 2}, .padding = {2, 2}},
       false,
       0},
      {"depthwise_doubled", {2, 5, 5, 3}, 0, {.kernel = {3, 3}}, false, 0, 2},
      {"thousand", {1, 1, 2, 1000}, 3, {}, true},
      {"to_thousand", {3, 1, 1, 5}, 1000, {}},
      {"batch_of_many", {37, 2, 2, 3}, 4, {.kernel = {2, 2}, .padding = {1, 1}}},
  });
}

std::vector<OpCase> large_conv_cases() {
  return cases_of({
      {"large", {8, 14, 14, 64}, 64, {.kernel = {3, 3}, .padding = {1, 1}}, true},
      {"large_odd", {5, 17, 19, 33}, 65, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
      {"large_point", {9, 7, 7, 200}, 136, {}},
      {"large_stem", {3, 61, 64, 3}, 64, {.kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}}},
      {"large_blocks", {4, 4, 4, 256}, 256, {.kernel = {3, 3}, .padding = {1, 1}}},
      {"large_groups", {4, 14, 14, 96}, 96, {.kernel = {3, 3}, .padding = {1, 1}}, false, 4},
      {"large_depthwise", {7, 28, 27, 72}, 0, {.kernel = {5, 5}, .padding = {2, 2}}, true, 0},
      {"large_dilated",
       {3, 25, 23, 40},
       48,
       {.kernel = {3, 3}, .padding = {4, 4}, .dilation = {4, 4}}},
  });
}

}  // namespace tr::test
