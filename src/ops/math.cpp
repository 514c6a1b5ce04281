// SPDX-License-Identifier: Apache-2.0
// Elementwise functions of one input beside the activations: one row each. The arithmetic is in
// src/backend/math_functors.h.
#include <limits>
#include <string>

#include "core/check.h"
#include "core/format.h"
#include "ops/rules.h"
#include "renaissance/ops/math.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

enum class Saves { X, Y };

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

OpDef forward_def(const Row& row) {
  OpDef def;
  def.name = row.name;
  def.inputs = {"x"};
  def.outputs = {"y"};
  def.attrs = row.attrs;
  def.infer = [&row](const Attrs& attrs, Types in) {
    ops::check_floating("x", in[0]);
    check_attrs(row, attrs);
    return std::vector<TensorType>{in[0]};
  };
  def.gradient = [&row](GraphBuilder& builder, const Node& node, Ids dout) {
    const TensorId saved = row.saves == Saves::Y ? node.outputs[0] : node.inputs[0];
    return std::vector<TensorId>{
        builder.add(std::string(row.name) + "_backward", {dout[0], saved}, node.attrs)};
  };
  def.cost = ops::cost_per_element(row.flops);
  def.in_place = {{0, 0}};
  def.elementwise = true;
  def.doc = row.doc;
  return def;
}

OpDef backward_def(const Row& row) {
  const char* const saved = row.saves == Saves::Y ? "y" : "x";
  OpDef def;
  def.name = std::string(row.name) + "_backward";
  def.inputs = {"dy", saved};
  def.outputs = {"dx"};
  def.attrs = row.attrs;
  def.infer = [&row, saved](const Attrs& attrs, Types in) {
    ops::check_floating("dy", in[0]);
    ops::check_same(saved, in[1], in[0], "that of dy");
    check_attrs(row, attrs);
    return std::vector<TensorType>{in[0]};
  };
  def.cost = ops::cost_per_element(row.flops + 2);
  def.in_place = {{0, 0}, {0, 1}};
  def.elementwise = true;
  def.doc = fmt::format("dx = dy * f'(x) of {}, from {}.", row.name, saved);
  return def;
}

const bool kRegistered = [] {
  for (const Row& row : table()) {
    OpRegistry::instance().add(forward_def(row));
    OpRegistry::instance().add(backward_def(row));
  }
  return true;
}();

}  // namespace
}  // namespace tr
