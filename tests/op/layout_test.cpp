// SPDX-License-Identifier: Apache-2.0
// reshape, permute, transpose, slice; gather, embedding and what stands beside a sequence.
#include <cmath>
#include <limits>

#include "op/op_harness.h"
#include "ops/layout.h"
#include "support/compare.h"
#include "support/reference_tensor.h"

namespace tr::test {
namespace {

using Ints = std::vector<std::int64_t>;

OpCase moving(const std::string& op, const std::string& name, const Shape& x, const Attrs& attrs) {
  OpCase c{.name = op + "_" + name, .op = op, .attrs = attrs};
  c.inputs = {Tensor::uniform(x, -1, 1, 1)};
  c.differentiable = {0};
  c.low = {0};
  return c;
}

OpCase permute_case(const std::string& name, const Shape& x, const Ints& axes) {
  OpCase c = moving("permute", name, x, {{"axes", axes}});
  c.forward = [axes](const std::vector<Array>& in) {
    Ints dims;
    for (const std::int64_t axis : axes) dims.push_back(in[0].shape[int(axis)]);
    return ref::moved(in[0], Shape(dims), [&](const Ints& place) {
      Ints from(place.size());
      for (std::size_t i = 0; i < place.size(); ++i) from[std::size_t(axes[i])] = place[i];
      return from;
    });
  };
  c.refusals = {{"an axis twice",
                 {Tensor::zeros({4, 5})},
                 {{"axes", Ints{0, 0}}},
                 {"axes are [0, 0], expected a permutation"}}};
  return c;
}

OpCase transpose_case(const std::string& name, const Shape& x, std::int64_t a, std::int64_t b) {
  OpCase c = moving("transpose", name, x, {{"axis0", a}, {"axis1", b}});
  const auto swapped = [a, b, rank = x.rank()](Ints v) {
    std::swap(v[std::size_t(a < 0 ? a + rank : a)], v[std::size_t(b < 0 ? b + rank : b)]);
    return v;
  };
  c.forward = [swapped](const std::vector<Array>& in) {
    const auto dims = in[0].shape.dims();
    return ref::moved(in[0], Shape(swapped(Ints(dims.begin(), dims.end()))), swapped);
  };
  c.refusals = {{"no such axis",
                 {Tensor::zeros({4, 5})},
                 {{"axis0", std::int64_t{0}}, {"axis1", std::int64_t{2}}},
                 {"axis is 2"}}};
  return c;
}

struct Cut {
  std::int64_t axis, start, end, step;
  std::int64_t first, count;  // what Python's slice gives
};

OpCase slice_case(const std::string& name, const Shape& x, const std::vector<Cut>& cuts) {
  Ints axes, starts, ends, steps;
  for (const Cut& cut : cuts) {
    axes.push_back(cut.axis);
    starts.push_back(cut.start);
    ends.push_back(cut.end);
    steps.push_back(cut.step);
  }
  OpCase c = moving("slice", name, x,
                    {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"steps", steps}});
  c.forward = [cuts](const std::vector<Array>& in) {
    Shape shape = in[0].shape;
    const auto axis_of = [&](const Cut& cut) {
      return int(cut.axis < 0 ? cut.axis + shape.rank() : cut.axis);
    };
    for (const Cut& cut : cuts) shape = shape.with_dim(axis_of(cut), cut.count);
    return ref::moved(in[0], shape, [&](Ints place) {
      for (const Cut& cut : cuts) {
        std::int64_t& at = place[std::size_t(axis_of(cut))];
        at = cut.first + at * cut.step;
      }
      return place;
    });
  };
  c.refusals = {{"a step of 0",
                 {Tensor::zeros({4, 5})},
                 {{"axes", Ints{0}}, {"starts", Ints{0}}, {"ends", Ints{2}}, {"steps", Ints{0}}},
                 {"step of axis 0 is 0"}},
                {"lists of other lengths",
                 {Tensor::zeros({4, 5})},
                 {{"axes", Ints{0}}, {"starts", Ints{}}, {"ends", Ints{2}}, {"steps", Ints{1}}},
                 {"1 axes, 0 starts"}}};
  return c;
}

Tensor numbers(const Shape& shape, std::int64_t below, DType dtype) {
  return Tensor::uniform(shape, 0, float(below), 3).to(dtype);
}

OpCase gather_case(const std::string& name, const Shape& x, const Shape& index, std::int64_t axis,
                   DType dtype) {
  OpCase c{.name = "gather_" + name, .op = "gather", .attrs = {{"axis", axis}}};
  const auto at = int(axis < 0 ? axis + x.rank() : axis);
  c.inputs = {Tensor::uniform(x, -1, 1, 1), numbers(index, x[at], dtype)};
  c.forward = [at](const std::vector<Array>& in) {
    return ref::moved(in[0], in[1].shape, [&](Ints place) {
      place[std::size_t(at)] = std::int64_t(ref::at(in[1], place));
      return place;
    });
  };
  c.differentiable = {0};
  c.low = {0};
  c.summed = index[at];
  c.refusals = {{"an index of floats",
                 {Tensor::zeros({3}), Tensor::zeros({3})},
                 c.attrs,
                 {"index has dtype fp32, expected int32 or int64"}}};
  return c;
}

OpCase embedding_case(const std::string& name, const Shape& ids, std::int64_t rows,
                      std::int64_t features, DType dtype) {
  OpCase c{.name = "embedding_" + name, .op = "embedding"};
  c.inputs = {numbers(ids, rows, dtype), Tensor::uniform({rows, features}, -1, 1, 1)};
  c.forward = [](const std::vector<Array>& in) {
    Ints dims(in[0].shape.dims().begin(), in[0].shape.dims().end());
    const std::int64_t features = in[1].shape[1];
    dims.push_back(features);
    Array y{Shape(dims)};
    for (std::int64_t i = 0; i < y.shape.num_elements(); ++i) {
      y[i] = in[1][std::int64_t(in[0][i / features]) * features + i % features];
    }
    return y;
  };
  c.differentiable = {1};
  c.low = {1};
  c.summed = ids.num_elements();
  c.refusals = {
      {"ids of floats", {Tensor::zeros({3}), Tensor::zeros({4, 5})}, {}, {"ids has dtype fp32"}},
      {"a row that is not there",
       {numbers({3}, 4, DType::INT32), Tensor::zeros({4, 5})},
       {{"padding_idx", std::int64_t{4}}},
       {"padding_idx is 4"}}};
  return c;
}

OpCase position_case(const std::string& name, const Shape& x) {
  OpCase c{.name = "position_embedding_" + name, .op = "position_embedding"};
  c.inputs = {Tensor::uniform(x, -1, 1, 1), Tensor::uniform(x.drop_first(), -1, 1, 2)};
  c.forward = [](const std::vector<Array>& in) { return ref::add(in[0], in[1]); };
  c.differentiable = {0, 1};
  c.low = {0};
  c.summed = x[0];
  c.refusals = {{"another sample",
                 {Tensor::zeros({2, 3, 4}), Tensor::zeros({2, 4})},
                 {},
                 {"weight has shape [2, 4], expected [3, 4]"}}};
  return c;
}

OpCase tokens_case(const std::string& name, const Shape& x, std::int64_t tokens) {
  OpCase c{.name = "prepend_tokens_" + name, .op = "prepend_tokens", .attrs = {{"tokens", tokens}}};
  c.inputs = {Tensor::uniform(x, -1, 1, 1), Tensor::uniform({tokens, x[2]}, -1, 1, 2)};
  c.forward = [tokens](const std::vector<Array>& in) {
    const Shape& shape = in[0].shape;
    Array y(shape.with_dim(1, shape[1] + tokens));
    for (std::int64_t i = 0; i < y.shape.num_elements(); ++i) {
      Ints place = ref::coordinates(y.shape, i);
      const bool token = place[1] < tokens;
      if (!token) place[1] -= tokens;
      y[i] = token ? ref::at(in[1], place) : ref::at(in[0], place);
    }
    return y;
  };
  c.differentiable = {0, 1};
  c.low = {0};
  c.summed = x[0];
  c.refusals = {{"a matrix",
                 {Tensor::zeros({2, 4}), Tensor::zeros({tokens, 4})},
                 c.attrs,
                 {"x has shape [2, 4], expected [N, T, C]"}}};
  return c;
}

}  // namespace

std::vector<OpCase> layout_cases() {
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  return {permute_case("heads", {2, 3, 4, 5}, {0, 2, 1, 3}),
          permute_case("reverse", {3, 1, 5, 2}, {3, 2, 1, 0}),
          transpose_case("last", {3, 4, 5}, -1, -2),
          transpose_case("far", {2, 3, 4, 5}, 0, 2),
          slice_case("middle", {5, 7}, {{1, 2, 5, 1, 2, 3}}),
          slice_case("steps", {9, 7}, {{0, 1, -1, 3, 1, 3}, {-1, 0, kEnd, 2, 0, 4}}),
          slice_case("backwards", {4, 6, 3}, {{1, -1, -100, -2, 5, 3}}),
          slice_case("cut_ends", {5, 4}, {{0, -100, 100, 1, 0, 5}}),
          gather_case("last", {4, 7}, {4, 3}, -1, DType::INT64),
          gather_case("repeats", {3, 2, 4}, {3, 9, 4}, 1, DType::INT32),
          gather_case("many", {2, 5, 3}, {2, 40, 3}, 1, DType::INT64),
          embedding_case("ids", {3, 5}, 7, 6, DType::INT32),
          embedding_case("wide", {67}, 5, 130, DType::INT64),
          embedding_case("frequent", {300}, 2, 5, DType::INT32),
          position_case("rows", {3, 4, 5}),
          position_case("vector", {5, 7}),
          tokens_case("one", {3, 4, 5}, 1),
          tokens_case("three", {2, 1, 7}, 3)};
}

std::vector<OpCase> large_layout_cases() {
  return {permute_case("large_heads", {7, 129, 12, 65}, {0, 2, 1, 3}),
          transpose_case("large", {5, 1031, 517}, 1, 2),
          slice_case("large", {7, 1031, 517}, {{1, 5, 1000, 3, 5, 332}, {2, 500, 3, -2, 500, 249}}),
          gather_case("large", {1031, 517}, {1031, 1}, 1, DType::INT32),
          gather_case("large_lines", {3, 1031, 7}, {3, 9001, 7}, 1, DType::INT64),
          embedding_case("large", {8, 513}, 1009, 130, DType::INT32),
          embedding_case("large_few", {4099}, 3, 65, DType::INT64),
          embedding_case("large_table", {60011}, 30011, 8, DType::INT32),
          tokens_case("large", {33, 197, 65}, 1)};
}

namespace {

Tensor row_of(const Tensor& x, std::int64_t row) {
  const std::int64_t columns = x.shape()[1];
  Tensor y = Tensor::zeros(Shape{1, columns});
  for (std::int64_t c = 0; c < columns; ++c) y.data<float>()[c] = float(x.at(row * columns + c));
  return y;
}

TEST(LayoutTest, ReshapedElementsAndTheirGradientStayInOrder) {
  const Tensor x = Tensor::uniform({4, 6}, -1, 1, 1);
  const Attrs sample = {{"shape", Ints{2, -1}}, {"keep_batch", true}};
  EXPECT_TRUE(same_bytes(run_op("reshape", {x}, sample).front(), x.reshape({4, 2, 3})));
  const Tensor dy = Tensor::uniform({4, 2, 3}, -1, 1, 2);
  EXPECT_TRUE(same_bytes(grad_op("reshape", {x}, sample, {dy}).front(), dy.reshape({4, 6})));
  const Attrs whole = {{"shape", Ints{-1, 8}}};
  EXPECT_TRUE(same_bytes(run_op("reshape", {x}, whole).front(), x.reshape({3, 8})));
  EXPECT_TRUE(refuses(
      [&] {
        run_op("reshape", {x}, {{"shape", Ints{5, -1}}});
      },
      {"shape is [5, -1], expected 24 elements"}));
}

TEST(LayoutTest, NumbersWhoseProductsOverflowAreRefusedOrCutShort) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40,
                         kLeast = std::numeric_limits<std::int64_t>::min();
  const Tensor x = Tensor::uniform({4, 6}, -1, 1, 1);
  EXPECT_TRUE(refuses(
      [&] {
        run_op("reshape", {x}, {{"shape", Ints{kHuge, kHuge, 24}}});
      },
      {"expected 24 elements"}));
  EXPECT_TRUE(refuses(
      [&] {
        run_op("reshape", {x}, {{"shape", Ints{kHuge, kHuge, -1}}});
      },
      {"expected 24 elements"}));
  const auto slice = [](std::int64_t start, std::int64_t step) {
    return Attrs{{"axes", Ints{0}},
                 {"starts", Ints{start}},
                 {"ends", Ints{step > 0 ? 100 : -100}},
                 {"steps", Ints{step}}};
  };
  EXPECT_TRUE(same_bytes(run_op("slice", {x}, slice(1, kHuge << 22)).front(), row_of(x, 1)));
  EXPECT_TRUE(same_bytes(run_op("slice", {x}, slice(2, kLeast)).front(), row_of(x, 2)));
}

TEST(LayoutTest, AnEmptySliceIsEmptyAndItsGradientIsZero) {
  const Attrs attrs = {
      {"axes", Ints{1}}, {"starts", Ints{3}}, {"ends", Ints{2}}, {"steps", Ints{1}}};
  EXPECT_EQ(sliced_view(attrs, {4, 5}).shape, (Shape{4, 0}));
  const Tensor x = Tensor::uniform({4, 5}, -1, 1, 1);
  const Tensor dx = grad_op("slice", {x}, attrs, {Tensor::zeros({4, 0})}).front();
  EXPECT_TRUE(same_bytes(dx, Tensor::zeros({4, 5})));
}

TEST(LookupTest, ANumberOutsideOfTheTableGivesNanAndNoGradient) {
  const Tensor weight = Tensor::uniform({4, 3}, -1, 1, 1);
  const Tensor ids = Tensor::from({3}, std::vector<std::int32_t>{-1, 4, 2});
  const Tensor y = run_op("embedding", {ids, weight}).front();
  EXPECT_TRUE(std::isnan(y.at(0)) && std::isnan(y.at(3)));
  EXPECT_EQ(y.at(6), weight.at(6));
  const Tensor dw = grad_op("embedding", {ids, weight}, {}, {Tensor::full({3, 3}, 1)})[1];
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(dw.at(i), i / 3 == 2 ? 1 : 0) << i;
  const Tensor x = Tensor::uniform({1, 4}, -1, 1, 1);
  const Tensor index = Tensor::from({1, 2}, std::vector<std::int64_t>{4, 1});
  const Tensor got = run_op("gather", {x, index}, {{"axis", std::int64_t{1}}}).front();
  EXPECT_TRUE(std::isnan(got.at(0)));
  EXPECT_EQ(got.at(1), x.at(1));
}

TEST(LookupTest, ThePaddingRowHasNoGradient) {
  const Tensor weight = Tensor::uniform({4, 3}, -1, 1, 1);
  const Tensor ids = Tensor::from({4}, std::vector<std::int32_t>{1, 2, 1, 3});
  const Attrs attrs = {{"padding_idx", std::int64_t{1}}};
  const Tensor dw = grad_op("embedding", {ids, weight}, attrs, {Tensor::full({4, 3}, 1)})[1];
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(dw.at(i), i / 3 >= 2 ? 1 : 0) << i;
}

}  // namespace
}  // namespace tr::test
