// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "op/op_harness.h"
#include "ops/reduction.h"
#include "support/compare.h"
#include "support/reference_tensor.h"

namespace tr::test {
namespace {

using Values = std::vector<double>;

double mean_of(const Values& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / double(v.size());
}

double reduced(const std::string& op, const Values& v, std::int64_t correction) {
  if (op == "sum") return std::accumulate(v.begin(), v.end(), 0.0);
  if (op == "mean") return mean_of(v);
  if (op == "amax") return *std::max_element(v.begin(), v.end());
  if (op == "amin") return *std::min_element(v.begin(), v.end());
  if (op == "prod") return std::accumulate(v.begin(), v.end(), 1.0, std::multiplies<>());
  const double mean = mean_of(v);
  double squares = 0;
  for (const double x : v) squares += (x - mean) * (x - mean);
  return squares / double(std::int64_t(v.size()) - correction);
}

/// Numbers whose order survives a difference quotient and rounding to 16 bits.
Tensor spread(const Shape& shape) {
  Tensor x(shape, DType::FP32);
  const std::int64_t n = x.num_elements();
  for (std::int64_t i = 0; i < n; ++i) x.data<float>()[i] = float(i * 37 % n) / 64 - 1;
  return x;
}

OpCase reduction_case(const std::string& op, const std::string& name, const Shape& x,
                      const std::vector<std::int64_t>& axes, bool keepdims = false) {
  // The variance is the unbiased one, in the cases that keep the axes the biased one.
  const std::int64_t correction = keepdims ? 0 : 1;
  OpCase c{.name = op + "_" + name, .op = op, .attrs = {{"axes", axes}, {"keepdims", keepdims}}};
  if (op == "var") c.attrs.set("correction", correction);
  const bool extremum = op == "amax" || op == "amin";
  c.inputs = {extremum       ? spread(x)
              : op == "prod" ? Tensor::uniform(x, 0.8f, 1.2f, 1)
                             : Tensor::uniform(x, -1, 1, 1)};
  const Shape small = reduced_shape(c.attrs, x);
  Shape result = small;
  if (!keepdims) {
    std::vector<std::int64_t> dims;
    for (int i = 0; i < x.rank(); ++i) {
      bool gone = axes.empty();
      for (const std::int64_t axis : axes) gone = gone || (axis < 0 ? axis + x.rank() : axis) == i;
      if (!gone) dims.push_back(x[i]);
    }
    result = Shape(dims);
  }
  c.forward = [=](const std::vector<Array>& in) {
    return ref::reduce(in[0], small, result,
                       [&](const Values& v) { return reduced(op, v, correction); });
  };
  c.differentiable = {0};
  c.low = {0};
  c.summed = x.num_elements() / std::max<std::int64_t>(1, small.num_elements());
  c.scale = op == "prod" ? 8 : 2;
  if (extremum) c.room = 0.005;  // the numbers of spread() are 1 / 64 apart
  c.refusals = {{"an axis out of range",
                 {Tensor::zeros({4, 5})},
                 {{"axes", std::vector<std::int64_t>{2}}},
                 {"axis is 2", "[4, 5]"}},
                {"an axis twice",
                 {Tensor::zeros({4, 5})},
                 {{"axes", std::vector<std::int64_t>{1, -1}}},
                 {"axis -1 is named twice"}}};
  return c;
}

const std::string kOps[] = {"sum", "mean", "amax", "amin", "prod", "var"};

}  // namespace

std::vector<OpCase> reduction_cases() {
  std::vector<OpCase> cases;
  for (const std::string& op : kOps) {
    cases.push_back(reduction_case(op, "last", {5, 33}, {-1}));
    cases.push_back(reduction_case(op, "first", {7, 5}, {0}, true));
    cases.push_back(reduction_case(op, "middle", {3, 4, 5}, {1}));
    cases.push_back(reduction_case(op, "ends", {3, 4, 5}, {0, 2}, true));
    cases.push_back(reduction_case(op, "tail", {3, 4, 5}, {1, 2}));
    cases.push_back(reduction_case(op, "all", {3, 7}, {}));
  }
  return cases;
}

std::vector<OpCase> large_reduction_cases() {
  std::vector<OpCase> cases;
  for (const std::string op : {"sum", "mean", "amax", "var"}) {
    cases.push_back(reduction_case(op, "large_last", {1031, 1033}, {-1}));
    cases.push_back(reduction_case(op, "large_first", {1031, 1033}, {0}));
    cases.push_back(reduction_case(op, "large_all", {509, 1033}, {}));
    cases.push_back(reduction_case(op, "large_middle", {63, 129, 65}, {1}, true));
    if (op ==
        "amax") {  // 16-bit copies of so many numbers have ties, whose number is not the CPU's
      for (std::size_t i = cases.size() - 4; i < cases.size(); ++i) cases[i].dtypes = {DType::FP32};
    }
  }
  return cases;
}

namespace {

TEST(ReductionTest, TiesShareTheGradient) {
  const Tensor x = Tensor::from({1, 4}, std::vector<float>{2, 5, 5, 1});
  const Attrs attrs = {{"axes", std::vector<std::int64_t>{1}}};
  const Tensor dx = grad_op("amax", {x}, attrs, {Tensor::full({1}, 3)}).front();
  EXPECT_TRUE(same_bytes(dx, Tensor::from({1, 4}, std::vector<float>{0, 1.5, 1.5, 0})));
}

TEST(ReductionTest, ProductsWithZerosHaveGradients) {
  const Tensor x = Tensor::from({3, 3}, std::vector<float>{2, 0, 3, 0, 4, 0, 1, 2, 4});
  const Attrs attrs = {{"axes", std::vector<std::int64_t>{1}}};
  const Tensor dx = grad_op("prod", {x}, attrs, {Tensor::full({3}, 1)}).front();
  EXPECT_TRUE(same_bytes(dx, Tensor::from({3, 3}, std::vector<float>{0, 6, 0, 0, 0, 0, 8, 4, 2})));
}

TEST(ReductionTest, NothingReducedIsRefusedOrHasItsValue) {
  const Tensor none = Tensor::zeros({3, 0});
  const Attrs attrs = {{"axes", std::vector<std::int64_t>{1}}};
  EXPECT_TRUE(refuses([&] { run_op("amax", {none}, attrs); }, {"no elements to reduce"}));
  EXPECT_EQ(run_op("sum", {none}, attrs)[0].at(1), 0);
  EXPECT_EQ(run_op("prod", {none}, attrs)[0].at(1), 1);
}

}  // namespace
}  // namespace tr::test
