// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "op/op_harness.h"

namespace tr::test {
namespace {

using Ints = std::vector<std::int64_t>;

Ints ints(const ref::Pair& pair) { return {pair[0], pair[1]}; }

/// Distinct multiples of 1/32 below 4 for up to 256 elements, exact in every dtype: no two cells of
/// a window are equal, or change places within a difference quotient.
Tensor distinct(const Shape& shape) {
  std::vector<float> values(std::size_t(shape.num_elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (float(i * 37 % 256) - 128.0f) / 32.0f;
  }
  return Tensor::from(shape, values);
}

Attrs pool_attrs(const ref::Window& window) {
  return {{"kernel", ints(window.kernel)},
          {"stride", ints(window.stride)},
          {"padding", ints(window.padding)},
          {"ceil_mode", window.ceil_mode}};
}

std::vector<Refusal> pool_refusals(const Attrs& attrs) {
  Attrs padded = attrs;
  padded.set("kernel", Ints{2, 2}).set("padding", Ints{2, 1});
  return {{"rows", {Tensor::zeros({4, 5})}, attrs, {"[4, 5]", "[N, H, W, C]"}},
          {"padding above half", {Tensor::zeros({1, 5, 5, 1})}, padded, {"padding is 2", "half"}}};
}

OpCase maxpool_case(const std::string& name, const Shape& x, const ref::Window& window) {
  OpCase c{.name = "maxpool_" + name, .op = "maxpool", .attrs = pool_attrs(window)};
  const bool small = x.num_elements() <= 256;
  c.inputs = {small ? distinct(x) : Tensor::uniform(x, -1, 1, 1)};
  c.forward = [window](const std::vector<Array>& in) { return ref::maxpool(in[0], window); };
  c.differentiable = {0};
  c.low = {0};
  c.summed = window.kernel[0] * window.kernel[1];
  c.room = 0.01;  // distinct numbers are 1 / 32 apart
  c.refusals = pool_refusals(c.attrs);
  return c;
}

OpCase avgpool_case(const std::string& name, const Shape& x, const ref::Window& window) {
  OpCase c{.name = "avgpool_" + name, .op = "avgpool", .attrs = pool_attrs(window)};
  c.attrs.set("count_include_pad", window.count_padding);
  c.inputs = {Tensor::uniform(x, -1, 1, 1)};
  c.forward = [window](const std::vector<Array>& in) { return ref::avgpool(in[0], window); };
  c.differentiable = {0};
  c.low = {0};
  c.summed = window.kernel[0] * window.kernel[1];
  c.refusals = pool_refusals(c.attrs);
  return c;
}

OpCase adaptive_case(const std::string& name, const Shape& x, const ref::Pair& size) {
  OpCase c{.name = "adaptive_avgpool_" + name, .op = "adaptive_avgpool"};
  c.attrs = {{"size", ints(size)}};
  c.inputs = {Tensor::uniform(x, -1, 1, 1)};
  c.forward = [size](const std::vector<Array>& in) { return ref::adaptive_avgpool(in[0], size); };
  c.differentiable = {0};
  c.low = {0};
  c.summed = std::max(x[1] * x[2], size[0] * size[1]);
  c.refusals = {{"rows", {Tensor::zeros({4, 5})}, c.attrs, {"[4, 5]", "[N, H, W, C]"}},
                {"size 0", c.inputs, {{"size", Ints{1, 0}}}, {"size is 0 along width"}}};
  return c;
}

OpCase gap_case(const std::string& name, const Shape& x) {
  OpCase c{.name = "gap_" + name, .op = "gap"};
  c.inputs = {Tensor::uniform(x, -1, 1, 1)};
  c.forward = [](const std::vector<Array>& in) { return ref::adaptive_avgpool(in[0], {1, 1}); };
  c.differentiable = {0};
  c.low = {0};
  c.summed = x[1] * x[2];
  c.refusals = {{"rows", {Tensor::zeros({4, 5})}, {}, {"[4, 5]", "[N, H, W, C]"}}};
  return c;
}

OpCase padding_case(const std::string& name, const Shape& x, std::int64_t multiple) {
  OpCase c{.name = "channel_padding_" + name, .op = "channel_padding"};
  c.attrs = {{"multiple", multiple}};
  c.inputs = {Tensor::uniform(x, -1, 1, 1)};
  c.forward = [multiple](const std::vector<Array>& in) {
    const std::int64_t channels = in[0].shape.back();
    return ref::pad_channels(in[0], (channels + multiple - 1) / multiple * multiple);
  };
  c.differentiable = {0};
  c.low = {0};
  c.refusals = {{"rows", {Tensor::zeros({4, 5})}, c.attrs, {"[4, 5]", "[N, H, W, C]"}}};
  return c;
}

}  // namespace

std::vector<OpCase> pooling_cases() {
  const ref::Window half{.kernel = {2, 2}, .stride = {2, 2}};
  const ref::Window stem{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  const ref::Window overlap{.kernel = {3, 2}, .stride = {1, 1}, .padding = {1, 0}};
  const ref::Window sparse{.kernel = {1, 2}, .stride = {3, 3}};
  ref::Window ceil = stem, ceil_gap = half, excluding = stem, ceil_excluding = stem;
  ceil.ceil_mode = true, ceil_gap.ceil_mode = true;
  excluding.count_padding = false;
  ceil_excluding.count_padding = false, ceil_excluding.ceil_mode = true;
  return {maxpool_case("half", {2, 4, 6, 5}, half),
          maxpool_case("stem", {1, 7, 6, 5}, stem),
          maxpool_case("overlap", {2, 5, 5, 5}, overlap),
          maxpool_case("sparse", {1, 8, 7, 3}, sparse),
          maxpool_case("ceil", {2, 6, 5, 4}, ceil),
          maxpool_case("ceil_gap", {1, 5, 7, 3}, ceil_gap),
          maxpool_case("one", {1, 1, 1, 1}, {}),
          avgpool_case("half", {2, 4, 6, 5}, half),
          avgpool_case("stem", {1, 7, 6, 5}, stem),
          avgpool_case("excluding", {1, 7, 6, 5}, excluding),
          avgpool_case("overlap", {2, 5, 5, 5}, overlap),
          avgpool_case("sparse", {1, 8, 7, 3}, sparse),
          avgpool_case("ceil", {2, 6, 5, 4}, ceil),
          avgpool_case("ceil_excluding", {2, 6, 5, 4}, ceil_excluding),
          adaptive_case("same", {2, 3, 4, 5}, {3, 4}),
          adaptive_case("uneven", {2, 7, 5, 3}, {3, 2}),
          adaptive_case("repeating", {2, 2, 3, 4}, {5, 7}),
          adaptive_case("one", {3, 4, 5, 6}, {1, 1}),
          gap_case("square", {3, 4, 4, 7}),
          gap_case("one_cell", {2, 1, 1, 5}),
          padding_case("three", {2, 3, 4, 3}, 8),
          padding_case("full", {2, 3, 4, 8}, 8),
          padding_case("odd", {1, 2, 2, 5}, 3)};
}

std::vector<OpCase> large_pooling_cases() {
  const ref::Window half{.kernel = {2, 2}, .stride = {2, 2}};
  const ref::Window stem{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  return {maxpool_case("large", {9, 56, 57, 64}, half),
          maxpool_case("large_stem", {5, 61, 64, 33}, stem),
          avgpool_case("large", {9, 28, 28, 130}, half),
          avgpool_case("large_stem", {5, 61, 64, 33}, stem),
          adaptive_case("large", {5, 19, 23, 65}, {7, 7}),
          gap_case("large", {33, 7, 7, 1000}),
          padding_case("large", {9, 57, 56, 3}, 4)};
}

}  // namespace tr::test
