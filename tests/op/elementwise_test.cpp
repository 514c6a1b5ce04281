// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>

#include "backend/elementwise_functors.h"
#include "op/op_harness.h"
#include "support/compare.h"

namespace tr::test {
namespace {

struct Row {
  std::string op;
  std::vector<double> alphas = {};  // of those with the attribute: a test for each
};

// One row for each entry of the table in src/backend/elementwise_functors.h.
const std::vector<Row> kRows = {
    {"relu"},
    {"relu6"},
    {"leaky_relu", {0.01, 0.2}},
    {"elu", {1, 0.5}},
    {"celu", {1, 0.7}},
    {"selu"},
    {"sigmoid"},
    {"log_sigmoid"},
    {"tanh"},
    {"tanhshrink"},
    {"silu"},
    {"mish"},
    {"gelu"},
    {"gelu_tanh"},
    {"softplus", {1, 2}},
    {"softsign"},
    {"hardtanh"},
    {"hardsigmoid"},
    {"hardswish"},
    {"hardshrink", {0.5, 0.3}},
    {"softshrink", {0.5, 0.8}},
    {"exp"},
    {"abs"},
    {"square"},
    {"neg"},
};

// Uniform in [-5, 5), no element within `margin` of a kink, where no difference quotient converges.
Tensor smooth_inputs(const std::string& op, const Attrs& attrs, double margin,
                     const Shape& shape = {7, 31}) {
  Tensor x = Tensor::uniform(shape, -5, 5, 1);
  for (float& value : std::span<float>(x.data<float>(), std::size_t(x.num_elements()))) {
    for (double kink : ref::kinks(op, attrs)) {
      if (std::abs(double(value) - kink) < margin) value = float(kink + 2 * margin);
    }
  }
  return x;
}

OpCase elementwise_case(const std::string& op, const Attrs& attrs, const std::string& suffix) {
  OpCase c{.name = op + suffix, .op = op, .attrs = attrs};
  c.inputs = {smooth_inputs(op, attrs, 0.05)};  // wider than the spacing of BF16 numbers near 6
  c.forward = [op, attrs](const std::vector<Array>& in) {
    Array y(in[0].shape);
    for (std::int64_t i = 0; i < y.shape.num_elements(); ++i)
      y[i] = ref::activation(op, attrs, in[0][i]);
    return y;
  };
  c.differentiable = {0};
  c.low = {0};
  c.room = ref::kinks(op, attrs).empty() ? 0.25 : 0.03;
  c.scale = 8;  // |x| <= 5 and slopes up to 1.7 meet where x and f(x) cancel
  c.refusals = {{"integers", {Tensor::zeros({3}, DType::INT32)}, attrs, {"int32"}}};
  return c;
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  for (const Row& row : kRows) {
    if (row.alphas.empty()) cases.push_back(elementwise_case(row.op, {}, ""));
    for (std::size_t i = 0; i < row.alphas.size(); ++i) {
      cases.push_back(
          elementwise_case(row.op, {{"alpha", row.alphas[i]}}, "_" + std::to_string(i)));
    }
  }
  return cases;
}

std::vector<OpCase> large_elementwise_cases() {
  std::vector<OpCase> cases;
  for (const std::string op : {"relu", "gelu", "tanh"}) {
    cases.push_back(elementwise_case(op, {}, "_large"));
    cases.back().inputs = {smooth_inputs(op, {}, 0.05, {1000003})};
  }
  return cases;
}

namespace {

TEST(ElementwiseTable, EveryFunctorHasARowHere) {
  std::set<std::string> rows, functors;
  for (const Row& row : kRows) rows.insert(row.op);
  functors::for_each([&]<typename Functor>() {
    functors.insert(std::string(Functor::kName));
    for (const Row& row : kRows) {
      if (row.op == Functor::kName) {
        EXPECT_EQ(row.alphas.empty(), !Functor::kHasAlpha) << row.op;
      }
    }
  });
  EXPECT_EQ(rows, functors);
}

// The functors themselves, in double: their formula and their derivative to nine digits.
TEST(ElementwiseTable, FunctorsInDoubleMatchFormulaAndFiniteDifferences) {
  for (const Row& row : kRows) {
    for (double alpha : row.alphas.empty() ? std::vector<double>{0} : row.alphas) {
      const Attrs attrs = row.alphas.empty() ? Attrs{} : Attrs{{"alpha", double(float(alpha))}};
      const Tensor inputs = smooth_inputs(row.op, attrs, 1e-3);
      const bool found = functors::visit(row.op, float(alpha), [&]<typename F>(const F& f) {
        for (float value : inputs.values<float>()) {
          const double x = value, y = ref::activation(row.op, attrs, x), h = 1e-5;
          EXPECT_NEAR(f(x), y, 1e-12 * (1 + std::abs(y))) << row.op << " of " << x;
          const double slope =
              (ref::activation(row.op, attrs, x + h) - ref::activation(row.op, attrs, x - h)) /
              (2 * h);
          const double saved = F::kSaves == functors::Saved::Y ? f(x) : x;
          EXPECT_NEAR(f.grad(saved, 1.0), slope, 1e-8 * (1 + std::abs(slope)))
              << row.op << "' at " << x;
        }
      });
      EXPECT_TRUE(found) << row.op;
    }
  }
}

TEST(ElementwiseTable, NaNGoesThrough) {
  functors::for_each([]<typename Functor>() {
    EXPECT_TRUE(std::isnan(functors::make<Functor>(0.5f)(NAN))) << Functor::kName;
  });
}

}  // namespace
}  // namespace tr::test
