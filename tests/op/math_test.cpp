// SPDX-License-Identifier: Apache-2.0
// Elementwise functions beside the activations, of one input and of two, comparisons, selection.
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "backend/math_functors.h"
#include "graph/op_def.h"
#include "op/op_harness.h"
#include "support/near.h"
#include "support/reference_tensor.h"
#include "support/tolerance.h"

namespace tr::test {
namespace {

struct MathRow {
  std::string op;
  Attrs attrs;
  std::function<double(double)> f;
  float low, high;  // of the inputs; f is smooth there but for the kinks
  std::vector<double> kinks = {};
  double scale = 1;  // of values and slopes there
};

double rounded(double x) { return std::nearbyint(x); }
double sign_of(double x) { return double(x > 0) - double(x < 0); }

// A row or more for each entry of the table in src/backend/math_functors.h.
const std::vector<MathRow>& math_rows() {
  static const std::vector<MathRow> rows = {
      {"log", {}, [](double x) { return std::log(x); }, 0.2f, 5, {}, 5},
      {"log1p", {}, [](double x) { return std::log1p(x); }, -0.7f, 5, {}, 4},
      {"expm1", {}, [](double x) { return std::expm1(x); }, -3, 2, {}, 8},
      {"sqrt", {}, [](double x) { return std::sqrt(x); }, 0.2f, 5, {}, 3},
      {"rsqrt", {}, [](double x) { return 1 / std::sqrt(x); }, 0.3f, 5, {}, 8},
      {"reciprocal", {}, [](double x) { return 1 / x; }, 0.4f, 4, {}, 8},
      {"sin", {}, [](double x) { return std::sin(x); }, -5, 5},
      {"cos", {}, [](double x) { return std::cos(x); }, -5, 5},
      {"erf", {}, [](double x) { return std::erf(x); }, -3, 3, {}, 2},
      {"floor", {}, [](double x) { return std::floor(x); }, 0.1f, 0.9f},
      {"ceil", {}, [](double x) { return std::ceil(x); }, -2.9f, -2.1f, {}, 3},
      {"round", {}, rounded, 0.6f, 1.4f, {}, 2},
      {"sign", {}, sign_of, -5, 5, {0}},
      {"pow_scalar", {{"exponent", 3.0}}, [](double x) { return x * x * x; }, -2, 2, {}, 12},
      {"pow_scalar",
       {{"exponent", -1.5}},
       [](double x) { return std::pow(x, -1.5); },
       0.4f,
       3,
       {},
       16},
      {"affine",
       {{"scale", -1.5}, {"shift", 0.25}},
       [](double x) { return 0.25 - 1.5 * x; },
       -2,
       2,
       {},
       4},
      {"clamp",
       {{"min", -0.5}, {"max", 1.25}},
       [](double x) { return std::clamp(x, -0.5, 1.25); },
       -3,
       3,
       {-0.5, 1.25},
       2},
      {"threshold",
       {{"threshold", 0.5}, {"value", -2.0}},
       [](double x) { return x > 0.5 ? x : -2.0; },
       -3,
       3,
       {0.5},
       3},
  };
  return rows;
}

Tensor math_inputs(const MathRow& row, const Shape& shape) {
  Tensor x = Tensor::uniform(shape, row.low, row.high, 1);
  for (float& value : std::span<float>(x.data<float>(), std::size_t(x.num_elements()))) {
    for (const double kink : row.kinks) {
      if (std::abs(double(value) - kink) < 0.05) value = float(kink + 0.1);
    }
  }
  return x;
}

OpCase math_case(const MathRow& row, const std::string& name, const Shape& shape) {
  OpCase c{.name = name, .op = row.op, .attrs = row.attrs};
  c.inputs = {math_inputs(row, shape)};
  c.forward = [f = row.f](const std::vector<Array>& in) {
    Array y = in[0];
    for (double& value : y.values) value = f(value);
    return y;
  };
  c.differentiable = {0};
  c.low = {0};
  c.scale = row.scale;
  if (!row.kinks.empty()) c.room = 0.03;
  c.refusals = {{"integers", {Tensor::zeros({3}, DType::INT32)}, row.attrs, {"int32"}}};
  return c;
}

using Combine = std::function<double(double, double)>;

struct BinaryRow {
  std::string op;
  Combine f;
  float low, high;  // of a
  float b_low, b_high;
  double scale;
};

const std::vector<BinaryRow>& binary_rows() {
  static const std::vector<BinaryRow> rows = {
      {"add", [](double a, double b) { return a + b; }, -1, 1, -1, 1, 1},
      {"mul", [](double a, double b) { return a * b; }, -1, 1, -1, 1, 1},
      {"sub", [](double a, double b) { return a - b; }, -1, 1, -1, 1, 1},
      {"div", [](double a, double b) { return a / b; }, -2, 2, 0.5f, 2, 8},
      {"pow", [](double a, double b) { return std::pow(a, b); }, 0.5f, 2, -2, 2, 8},
      // Apart from each other: no difference quotient meets a tie.
      {"minimum", [](double a, double b) { return std::min(a, b); }, 0, 1, -1, -0.1f, 1},
      {"maximum", [](double a, double b) { return std::max(a, b); }, 0.1f, 1, -1, 0, 1},
  };
  return rows;
}

OpCase binary_case(const BinaryRow& row, const std::string& name, const Shape& a, const Shape& b) {
  OpCase c{.name = row.op + "_" + name, .op = row.op};
  c.inputs = {Tensor::uniform(a, row.low, row.high, 1),
              Tensor::uniform(b, row.b_low, row.b_high, 2)};
  c.forward = [f = row.f](const std::vector<Array>& in) { return ref::combine(in[0], in[1], f); };
  c.differentiable = {0, 1};
  c.low = {0, 1};
  const std::int64_t count = ref::broadcast_shape(a, b).num_elements();
  c.summed = count / std::min(a.num_elements(), b.num_elements());
  c.scale = row.scale;
  c.room = 0.04;  // both of minimum and maximum move, which are 0.1 apart
  c.refusals = {{"shapes that do not broadcast",
                 {Tensor::zeros({4, 5}), Tensor::zeros({4, 3})},
                 {},
                 {"[4, 5]", "[4, 3]"}}};
  return c;
}

OpCase prelu_case(const std::string& name, const Shape& x, std::int64_t slopes) {
  OpCase c{.name = "prelu_" + name, .op = "prelu"};
  c.inputs = {math_inputs({"", {}, {}, -2, 2, {0}}, x), Tensor::uniform({slopes}, 0.1f, 0.5f, 2)};
  c.forward = [](const std::vector<Array>& in) {
    return ref::combine(in[0], in[1], [](double a, double b) { return a > 0 ? a : b * a; });
  };
  c.differentiable = {0, 1};
  c.low = {0};
  c.summed = x.num_elements() / slopes;
  c.room = 0.03;
  c.scale = 2;
  c.refusals = {{"slopes of another length",
                 {Tensor::zeros({4, 5}), Tensor::zeros({4})},
                 {},
                 {"weight has shape [4]", "[4, 5]"}}};
  return c;
}

OpCase compare_case(const std::string& op, DType dtype, const Shape& a, const Shape& b,
                    const Combine& f) {
  OpCase c{.name = op + "_" + std::string(name_of(dtype)) + (a == b ? "" : "_broadcast"), .op = op};
  // Few distinct numbers: many are equal.
  c.inputs = {Tensor::uniform(a, -2, 2, 1).to(DType::INT32).to(dtype),
              Tensor::uniform(b, -2, 2, 2).to(DType::INT32).to(dtype)};
  c.forward = [f](const std::vector<Array>& in) { return ref::combine(in[0], in[1], f); };
  if (is_floating(dtype)) c.low = {0, 1};
  if (!is_floating(dtype)) c.dtypes = {DType::FP32};
  c.refusals = {{"bytes",
                 {Tensor::zeros({3}, DType::UINT8), Tensor::zeros({3}, DType::UINT8)},
                 {},
                 {"a has dtype uint8"}}};
  return c;
}

void add_comparisons(std::vector<OpCase>& cases) {
  const std::vector<std::pair<std::string, Combine>> rows = {
      {"equal", [](double a, double b) { return double(a == b); }},
      {"not_equal", [](double a, double b) { return double(a != b); }},
      {"less", [](double a, double b) { return double(a < b); }},
      {"less_equal", [](double a, double b) { return double(a <= b); }},
      {"greater", [](double a, double b) { return double(a > b); }},
      {"greater_equal", [](double a, double b) { return double(a >= b); }},
      {"logical_and", [](double a, double b) { return double(a != 0 && b != 0); }},
      {"logical_or", [](double a, double b) { return double(a != 0 || b != 0); }},
      {"logical_xor", [](double a, double b) { return double((a != 0) != (b != 0)); }}};
  for (const auto& [op, f] : rows) {
    cases.push_back(compare_case(op, DType::FP32, {7, 9}, {7, 9}, f));
    cases.push_back(compare_case(op, DType::FP32, {3, 1, 5}, {4, 1}, f));
    cases.push_back(compare_case(op, DType::INT64, {7, 9}, {9}, f));
    cases.push_back(compare_case(op, DType::INT32, {7, 9}, {7, 9}, f));
    const bool takes_bool = op.starts_with("logical") || op == "equal" || op == "not_equal";
    if (takes_bool) cases.push_back(compare_case(op, DType::BOOL, {5, 3}, {5, 3}, f));
  }
}

Tensor random_mask(const Shape& shape) {
  return Tensor::uniform(shape, -2, 2, 5).to(DType::INT32).to(DType::BOOL);
}

OpCase where_case(const std::string& name, const Shape& condition, const Shape& a, const Shape& b) {
  OpCase c{.name = "where_" + name, .op = "where"};
  c.inputs = {random_mask(condition), Tensor::uniform(a, -1, 1, 1), Tensor::uniform(b, -1, 1, 2)};
  c.forward = [](const std::vector<Array>& in) {
    Array y(ref::broadcast_shape(in[0].shape, ref::broadcast_shape(in[1].shape, in[2].shape)));
    for (std::int64_t i = 0; i < y.shape.num_elements(); ++i) {
      const auto place = ref::coordinates(y.shape, i);
      y[i] = ref::at(in[0], place) != 0 ? ref::at(in[1], place) : ref::at(in[2], place);
    }
    return y;
  };
  c.differentiable = {1, 2};
  c.low = {1, 2};
  c.summed = 60;
  c.refusals = {{"a condition of numbers",
                 {Tensor::zeros({3}), Tensor::zeros({3}), Tensor::zeros({3})},
                 {},
                 {"condition has dtype fp32, expected bool"}}};
  return c;
}

OpCase masked_case(const std::string& name, const Shape& x, const Shape& mask, bool where_false) {
  OpCase c{.name = "masked_fill_" + name,
           .op = "masked_fill",
           .attrs = {{"value", -3.0}, {"where_false", where_false}}};
  c.inputs = {Tensor::uniform(x, -1, 1, 1), random_mask(mask)};
  c.forward = [where_false](const std::vector<Array>& in) {
    return ref::combine(in[0], in[1], [&](double value, double holds) {
      return (holds != 0) != where_false ? -3.0 : value;
    });
  };
  c.differentiable = {0};
  c.low = {0};
  c.refusals = {{"a larger mask",
                 {Tensor::zeros({5}), Tensor::zeros({4, 5}, DType::BOOL)},
                 c.attrs,
                 {"mask has shape [4, 5]"}}};
  return c;
}

OpCase triangle_case(const std::string& op, const std::string& name, const Shape& x,
                     std::int64_t diagonal, double value) {
  OpCase c{.name = op + "_" + name, .op = op, .attrs = {{"diagonal", diagonal}, {"value", value}}};
  c.inputs = {Tensor::uniform(x, -1, 1, 1)};
  c.forward = [=](const std::vector<Array>& in) {
    Array y = in[0];
    for (std::int64_t i = 0; i < y.shape.num_elements(); ++i) {
      const auto place = ref::coordinates(y.shape, i);
      const std::int64_t from_diagonal = place.back() - place[place.size() - 2];
      const bool keeps = op == "tril" ? from_diagonal <= diagonal : from_diagonal >= diagonal;
      if (!keeps) y[i] = value;
    }
    return y;
  };
  c.differentiable = {0};
  c.low = {0};
  c.refusals = {{"a vector", {Tensor::zeros({5})}, c.attrs, {"x has shape [5]"}}};
  return c;
}

}  // namespace

std::vector<OpCase> math_cases() {
  std::vector<OpCase> cases;
  std::set<std::string> seen;
  for (const MathRow& row : math_rows()) {
    const std::string name = row.op + (seen.insert(row.op).second ? "" : "_again");
    cases.push_back(math_case(row, name, {7, 31}));
  }
  for (const BinaryRow& row : binary_rows()) {
    cases.push_back(binary_case(row, "plain", {3, 33}, {3, 33}));
    cases.push_back(binary_case(row, "small_first", {5}, {4, 5}));
    cases.push_back(binary_case(row, "outer", {4, 1}, {1, 5}));
    cases.push_back(binary_case(row, "crossed", {3, 1, 5}, {4, 1}));
    cases.push_back(binary_case(row, "number", {2, 3, 4}, {1}));
  }
  cases.push_back(prelu_case("one", {5, 7}, 1));
  cases.push_back(prelu_case("channels", {2, 3, 5}, 5));
  add_comparisons(cases);
  cases.push_back(where_case("same", {4, 5}, {4, 5}, {4, 5}));
  cases.push_back(where_case("broadcast", {4, 1, 5}, {3, 1}, {1}));
  cases.push_back(masked_case("same", {4, 5}, {4, 5}, false));
  cases.push_back(masked_case("rows", {2, 4, 5}, {4, 1}, true));
  cases.push_back(triangle_case("tril", "square", {2, 5, 5}, 0, 0));
  cases.push_back(triangle_case("tril", "shifted", {3, 7}, 2, -1.5));
  cases.push_back(triangle_case("triu", "square", {2, 5, 5}, 0, 0));
  cases.push_back(triangle_case("triu", "shifted", {7, 3}, -2, 0.5));
  return cases;
}

std::vector<OpCase> large_math_cases() {
  std::vector<OpCase> cases = {math_case(math_rows()[3], "sqrt_large", {1000003})};
  for (const BinaryRow& row : binary_rows()) {
    cases.push_back(binary_case(row, "large_crossed", {63, 1, 65}, {129, 1}));
  }
  cases.push_back(prelu_case("large", {1031, 517}, 517));
  cases.push_back(where_case("large", {129, 1}, {63, 1, 65}, {63, 129, 65}));
  cases.push_back(triangle_case("tril", "large", {7, 513, 515}, 0, -4));
  return cases;
}

namespace {

// The functors themselves, in double: their formula and their derivative to nine digits.
TEST(MathTable, FunctorsInDoubleMatchFormulaAndFiniteDifferences) {
  std::set<std::string> rows, functors;
  functors::for_each_math([&]<typename F>() { functors.insert(std::string(F::kName)); });
  for (const MathRow& row : math_rows()) {
    rows.insert(row.op);
    double values[2] = {0, 0};
    const std::vector<AttrSpec>& specs = OpRegistry::instance().get(row.op).attrs;
    for (std::size_t i = 0; i < specs.size(); ++i) values[i] = row.attrs.f64(specs[i].name);
    const Tensor inputs = math_inputs(row, {300});
    functors::visit_math(row.op, float(values[0]), float(values[1]), [&]<typename F>(const F& f) {
      EXPECT_EQ(specs.size(), std::size_t(F::kNumAttrs)) << row.op;
      for (const float value : inputs.values<float>()) {
        const double x = value, h = kDifferenceStep;
        EXPECT_TRUE(is_near(f(x), row.f(x), kDoubleTolerance)) << row.op << " of " << x;
        const double slope = (row.f(x + h) - row.f(x - h)) / (2 * h);
        const double saved = F::kSaves == functors::Saved::Y ? f(x) : x;
        EXPECT_TRUE(is_near(f.grad(saved, 1.0), slope, kDifferenceTolerance))
            << row.op << "' at " << x;
      }
    });
  }
  EXPECT_EQ(rows, functors) << "a functor without a row here, or the other way round";
}

TEST(MathTable, NanGoesThrough) {
  functors::for_each_math([]<typename F>() {
    EXPECT_TRUE(std::isnan(functors::make_math<F>(0.5f, 2.0f)(std::nanf("")))) << F::kName;
  });
  const float nan = std::nanf("");
  for (const std::string op : {"minimum", "maximum"}) {
    const Tensor a = Tensor::from({2}, std::vector<float>{nan, 1}),
                 b = Tensor::from({2}, std::vector<float>{1, nan});
    const Tensor y = run_op(op, {a, b}).front();
    EXPECT_TRUE(std::isnan(y.at(0)) && std::isnan(y.at(1))) << op;
  }
}

// What PyTorch does with ties, and with powers of zero.
TEST(MathTable, GradientsAtSpecialPlaces) {
  const Tensor one = Tensor::full({1}, 1), zero = Tensor::zeros({1}), two = Tensor::full({1}, 2);
  for (const std::string op : {"minimum", "maximum"}) {
    const std::vector<Tensor> halves = grad_op(op, {two, two}, {}, {one});
    EXPECT_EQ(halves[0].at(0), 0.5) << op;
    EXPECT_EQ(halves[1].at(0), 0.5) << op;
  }
  const std::vector<Tensor> of_zero = grad_op("pow", {zero, two}, {}, {one});
  EXPECT_EQ(of_zero[0].at(0), 0);
  EXPECT_EQ(of_zero[1].at(0), 0);
  const std::vector<Tensor> to_zero = grad_op("pow", {zero, zero}, {}, {one});
  EXPECT_EQ(to_zero[0].at(0), 0);
  EXPECT_EQ(grad_op("pow_scalar", {zero}, {{"exponent", 0.0}}, {one})[0].at(0), 0);
}

}  // namespace
}  // namespace tr::test
