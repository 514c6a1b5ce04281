// SPDX-License-Identifier: Apache-2.0
// Elementwise functions of one input beside the activations: one row each. The arithmetic is in
// src/backend/math_functors.h.
#include <limits>
#include <string>

#include "core/check.h"
#include "ops/unary.h"
#include "renaissance/ops/math.h"

namespace tr {
namespace {

using ops::Saves;

struct Row {
  const char* name;
  Saves saves;
  int flops;                    // an element, forward; a transcendental function counts as 8
  std::vector<AttrSpec> attrs;  // at most two numbers, in the order of the functor's fields
  const char* doc;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"log", Saves::X, 8, {}, "log(x). torch.log"},
      {"log1p", Saves::X, 8, {}, "log(1 + x). torch.log1p"},
      {"expm1", Saves::X, 8, {}, "exp(x) - 1. torch.expm1"},
      {"sqrt", Saves::Y, 1, {}, "sqrt(x). torch.sqrt"},
      {"rsqrt", Saves::Y, 2, {}, "1 / sqrt(x). torch.rsqrt"},
      {"reciprocal", Saves::Y, 1, {}, "1 / x. torch.reciprocal"},
      {"sin", Saves::X, 8, {}, "sin(x). torch.sin"},
      {"cos", Saves::X, 8, {}, "cos(x). torch.cos"},
      {"erf", Saves::X, 8, {}, "erf(x). torch.erf"},
      {"floor", Saves::Y, 1, {}, "The largest integer that is not above x. torch.floor"},
      {"ceil", Saves::Y, 1, {}, "The smallest integer that is not below x. torch.ceil"},
      {"round", Saves::Y, 1, {}, "The nearest integer, ties to even. torch.round"},
      {"sign", Saves::Y, 1, {}, "-1, 0 or 1. torch.sign"},
      {"pow_scalar",
       Saves::X,
       16,
       {{"exponent", 2.0, true, "any number"}},
       "x^exponent. torch.pow(x, number)"},
      {"affine",
       Saves::Y,
       2,
       {{"scale", 1.0, false, "factor"}, {"shift", 0.0, false, "summand"}},
       "scale * x + shift. x * scale + shift in PyTorch"},
      {"clamp",
       Saves::X,
       2,
       {{"min", -kInfinity, false, "smallest y"}, {"max", kInfinity, false, "largest y"}},
       "min(max(x, min), max). torch.clamp"},
      {"threshold",
       Saves::X,
       1,
       {{"threshold", 0.0, true, "x above it stays"}, {"value", 0.0, true, "y elsewhere"}},
       "x > threshold ? x : value. torch.nn.functional.threshold"},
  };
  return rows;
}

void check_attrs(const Row& row, const Attrs& attrs) {
  for (const AttrSpec& spec : row.attrs) {
    const double value = attrs.f64(spec.name);
    TR_CHECK(value == value, "{} is {}, expected a number", spec.name, value);
  }
  if (std::string(row.name) == "clamp") {
    TR_CHECK(attrs.f64("min") <= attrs.f64("max"), "min is {}, expected at most max, which is {}",
             attrs.f64("min"), attrs.f64("max"));
  }
}

const bool kRegistered = [] {
  for (const Row& row : table()) {
    ops::register_unary({row.name, row.saves, row.flops, row.attrs,
                         [&row](const Attrs& attrs) { check_attrs(row, attrs); }, row.doc});
  }
  return true;
}();

}  // namespace
}  // namespace tr
