// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "op/op_harness.h"

namespace tr::test {
namespace {

OpCase add_case(const std::string& name, const Shape& a, const Shape& b) {
  OpCase c{.name = "add_" + name, .op = "add"};
  c.inputs = {Tensor::uniform(a, -1, 1, 1), Tensor::uniform(b, -1, 1, 2)};
  c.forward = [](const std::vector<Array>& in) { return ref::add(in[0], in[1]); };
  c.differentiable = {0, 1};
  c.low = {0, 1};
  c.summed = a.num_elements() / b.num_elements();
  c.refusals = {{"shapes that do not broadcast",
                 {Tensor::zeros({4, 5}), Tensor::zeros({4, 3})},
                 {},
                 {"[4, 5]", "[4, 3]"}}};
  return c;
}

OpCase mul_case(const std::string& name, const Shape& a, const Shape& b) {
  OpCase c = add_case(name, a, b);
  c.name = "mul_" + name, c.op = "mul";
  c.forward = [](const std::vector<Array>& in) { return ref::mul(in[0], in[1]); };
  return c;
}

OpCase mul_reduce_case(const std::string& name, const Shape& x, const Shape& like) {
  OpCase c{.name = "mul_reduce_" + name, .op = "mul_reduce"};
  c.inputs = {Tensor::uniform(x, -1, 1, 1), Tensor::uniform(x, -1, 1, 2), Tensor::zeros(like)};
  c.forward = [](const std::vector<Array>& in) {
    return ref::reduce_to(ref::mul(in[0], in[1]), in[2].shape);
  };
  c.low = {0, 1, 2};
  c.summed = x.num_elements() / like.num_elements();
  c.refusals = {{"factors that differ",
                 {Tensor::zeros({4, 5}), Tensor::zeros({4}), Tensor::zeros({5})},
                 {},
                 {"[4, 5]", "[4]"}}};
  return c;
}

OpCase reduce_case(const std::string& name, const Shape& x, const Shape& like) {
  OpCase c{.name = "reduce_to_" + name, .op = "reduce_to"};
  c.inputs = {Tensor::uniform(x, -1, 1, 1), Tensor::zeros(like)};
  c.forward = [](const std::vector<Array>& in) { return ref::reduce_to(in[0], in[1].shape); };
  c.low = {0, 1};
  c.summed = x.num_elements() / like.num_elements();
  c.refusals = {
      {"no sub-shape", {Tensor::zeros({4, 5}), Tensor::zeros({3})}, {}, {"[4, 5]", "[3]"}}};
  return c;
}

OpCase concat_case(const std::string& name, std::int64_t axis, const std::vector<Shape>& shapes) {
  OpCase c{.name = "concat_" + name, .op = "concat", .attrs = {{"axis", axis}}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    c.inputs.push_back(Tensor::uniform(shapes[i], -1, 1, i + 1));
    c.differentiable.push_back(int(i));
    c.low.push_back(int(i));
  }
  c.forward = [axis](const std::vector<Array>& in) { return ref::concat(in, int(axis)); };
  c.refusals = {{"another height",
                 {Tensor::zeros({2, 3, 4}), Tensor::zeros({2, 5, 4})},
                 {{"axis", std::int64_t(2)}},
                 {"[2, 3, 4]", "[2, 5, 4]"}},
                {"axis out of range",
                 {Tensor::zeros({2, 3}), Tensor::zeros({2, 3})},
                 {{"axis", std::int64_t(2)}},
                 {"axis", "2"}}};
  return c;
}

OpCase cast_case(const std::string& to) {
  OpCase c{.name = "cast_" + to, .op = "cast", .attrs = {{"dtype", to}}};
  c.inputs = {Tensor::uniform({7, 33}, -1, 1, 1)};
  c.forward = [](const std::vector<Array>& in) { return in[0]; };
  c.differentiable = {0};
  c.low = {0};
  c.refusals = {{"to integers", c.inputs, {{"dtype", std::string("int32")}}, {"int32"}}};
  return c;
}

/// Pixels of every value; every third picture mirrored, every second one with a rectangle.
OpCase normalize_case(const std::string& name, const Shape& images, std::int64_t channels,
                      DType dtype) {
  OpCase c{.name = "normalize_image_" + name, .op = "normalize_image"};
  const std::int64_t n = images[0], height = images[1], width = images[2], from = images[3];
  Tensor pixels(images, DType::UINT8), tails = Tensor::zeros({n, 8}, DType::INT32);
  for (std::int64_t i = 0; i < images.num_elements(); ++i)
    pixels.data<std::uint8_t>()[i] = std::uint8_t(i * 37 + i / 256);
  for (std::int64_t i = 0; i < n; ++i) {
    std::int32_t* tail = tails.data<std::int32_t>() + i * 8;
    tail[0] = i % 3 == 0 ? 1 : 0;
    if (i % 2 == 0) tail[1] = 1, tail[2] = 2, tail[3] = 3, tail[4] = 4;  // top, left, height, width
  }
  c.inputs = {pixels, tails};
  std::vector<float> mean, std;
  std::vector<std::int64_t> mean_bits, std_bits;
  for (std::int64_t k = 0; k < from; ++k) {
    mean.push_back(0.4f + 0.01f * float(k));
    std.push_back(0.3f - 0.02f * float(k));
    mean_bits.push_back(std::bit_cast<std::int32_t>(mean.back()));
    std_bits.push_back(std::bit_cast<std::int32_t>(std.back()));
  }
  c.attrs = {{"dtype", std::string(name_of(dtype))},
             {"channels", channels},
             {"mean_bits", mean_bits},
             {"std_bits", std_bits}};
  c.forward = [=](const std::vector<Array>& in) {
    const std::int64_t to = channels == 0 ? from : channels;
    Array y(Shape{n, height, width, to});
    for (std::int64_t i = 0; i < y.shape.num_elements(); ++i) {
      const std::int64_t k = i % to, x = i / to % width, row = i / to / width % height,
                         image = i / to / width / height;
      const auto tail = [&](std::int64_t at) { return in[1][image * 8 + at]; };
      const bool erased =
          row >= tail(1) && row < tail(1) + tail(3) && x >= tail(2) && x < tail(2) + tail(4);
      if (k >= from || erased) continue;
      const std::int64_t column = tail(0) != 0 ? width - 1 - x : x;
      const double pixel = in[0][((image * height + row) * width + column) * from + k];
      y[i] = (pixel / 255 - double(mean[std::size_t(k)])) / double(std[std::size_t(k)]);
    }
    return y;
  };
  c.dtypes = {dtype};
  c.scale = 4;  // bound of the values
  c.refusals = {{"pixels that are floats",
                 {Tensor::zeros(images), tails},
                 c.attrs,
                 {"image has dtype fp32", "uint8"}}};
  return c;
}

}  // namespace

std::vector<OpCase> shape_cases() {
  return {cast_case("fp32"),
          cast_case("fp16"),
          cast_case("bf16"),
          add_case("same", {4, 5}, {4, 5}),
          add_case("row", {4, 5}, {5}),
          add_case("column", {4, 5}, {4, 1}),
          add_case("middle", {2, 3, 4}, {3, 1}),
          add_case("one", {2, 3, 4}, {1}),
          mul_case("same", {4, 5}, {4, 5}),
          mul_case("channels", {2, 3, 4, 5}, {2, 1, 1, 5}),
          mul_case("column", {4, 5}, {4, 1}),
          mul_case("one", {2, 3, 4}, {1}),
          mul_reduce_case("channels", {2, 3, 4, 5}, {2, 1, 1, 5}),
          mul_reduce_case("same", {4, 5}, {4, 5}),
          mul_reduce_case("column", {4, 37}, {4, 1}),
          reduce_case("row", {37, 5}, {5}),
          reduce_case("column", {4, 37}, {4, 1}),
          reduce_case("middle", {6, 3, 7}, {3, 1}),
          reduce_case("one", {6, 3, 7}, {1}),
          concat_case("last", -1, {{5, 3}, {5, 4}}),
          concat_case("three", 1, {{2, 1}, {2, 7}, {2, 2}}),
          concat_case("middle", 1, {{2, 3, 4}, {2, 1, 4}}),
          concat_case("image", 3, {{2, 3, 3, 2}, {2, 3, 3, 5}}),
          normalize_case("gray", {7, 9, 11, 1}, 0, DType::FP32),
          normalize_case("rgb", {4, 8, 8, 3}, 0, DType::FP16),
          normalize_case("padded", {5, 7, 6, 3}, 8, DType::BF16)};
}

std::vector<OpCase> large_shape_cases() {
  std::vector<Shape> many;  // more parts than one launch takes
  for (std::int64_t i = 0; i < 70; ++i) many.push_back({37, 1 + i % 5});
  return {add_case("large_same", {1031, 1033}, {1031, 1033}),
          add_case("large_row", {2053, 517}, {517}),
          add_case("large_column", {2053, 517}, {2053, 1}),
          add_case("large_middle", {63, 129, 65}, {129, 1}),
          mul_case("large_channels", {33, 14, 15, 240}, {33, 1, 1, 240}),
          mul_case("large_same", {1031, 1033}, {1031, 1033}),
          mul_reduce_case("large_channels", {33, 14, 15, 240}, {33, 1, 1, 240}),
          mul_reduce_case("large_row", {4099, 517}, {517}),
          reduce_case("large_row", {4099, 517}, {517}),
          reduce_case("large_column", {517, 4099}, {517, 1}),
          reduce_case("large_one", {1009, 1013}, {1}),
          reduce_case("large_middle", {63, 129, 65}, {129, 1}),
          reduce_case("narrow", {300007, 3}, {3}),
          reduce_case("tall", {300007, 3}, {300007, 1}),
          reduce_case("both_ends", {33, 1, 65, 17}, {33, 1, 1, 17}),
          concat_case("large", -1, {{5003, 33}, {5003, 64}, {5003, 7}}),
          concat_case("large_aligned", -1, {{5003, 64}, {5003, 32}}),
          concat_case("many", 1, many),
          normalize_case("large", {33, 96, 130, 3}, 0, DType::FP16),
          normalize_case("large_padded", {33, 96, 130, 3}, 4, DType::FP32)};
}

}  // namespace tr::test
