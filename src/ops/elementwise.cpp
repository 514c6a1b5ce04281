// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of one input: one row each. The arithmetic is in
// src/backend/elementwise_functors.h.
#include <optional>
#include <string>

#include "core/check.h"
#include "core/format.h"
#include "ops/rules.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

/// What the backward pass keeps.
enum class Saves { X, Y };

/// The attribute "alpha" of an op that has one.
struct Alpha {
  double default_value;
  bool zero_allowed;
  const char* meaning;
};

struct Row {
  const char* name;
  Saves saves;
  int flops;  // an element, forward; a transcendental function counts as 8
  std::optional<Alpha> alpha;
  const char* doc;
};

const Row kTable[] = {
    {"relu", Saves::Y, 1, {}, "max(x, 0). torch.relu"},
    {"relu6", Saves::Y, 2, {}, "min(max(x, 0), 6). torch.nn.functional.relu6"},
    {"leaky_relu", Saves::Y, 2, Alpha{0.01, true, "slope below 0"},
     "x > 0 ? x : alpha * x. torch.nn.functional.leaky_relu"},
    {"elu", Saves::Y, 10, Alpha{1, true, "minus the limit at minus infinity"},
     "x > 0 ? x : alpha * (exp(x) - 1). torch.nn.functional.elu"},
    {"celu", Saves::Y, 11, Alpha{1, false, "minus the limit at minus infinity"},
     "x > 0 ? x : alpha * (exp(x / alpha) - 1). torch.nn.functional.celu"},
    {"selu", Saves::Y, 10, {}, "1.0507 * elu(x, 1.6733). torch.selu"},
    {"sigmoid", Saves::Y, 10, {}, "1 / (1 + exp(-x)). torch.sigmoid"},
    {"log_sigmoid", Saves::X, 18, {}, "log(sigmoid(x)). torch.nn.functional.logsigmoid"},
    {"tanh", Saves::Y, 8, {}, "tanh(x). torch.tanh"},
    {"tanhshrink", Saves::X, 9, {}, "x - tanh(x). torch.nn.functional.tanhshrink"},
    {"silu", Saves::X, 11, {}, "x * sigmoid(x). torch.nn.functional.silu"},
    {"mish", Saves::X, 28, {}, "x * tanh(log(1 + exp(x))). torch.nn.functional.mish"},
    {"gelu", Saves::X, 12, {}, "x * (1 + erf(x / sqrt 2)) / 2. torch.nn.functional.gelu"},
    {"gelu_tanh",
     Saves::X,
     16,
     {},
     "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2. "
     "torch.nn.functional.gelu(approximate='tanh')"},
    {"softplus", Saves::X, 19, Alpha{1, false, "beta"},
     "log(1 + exp(alpha * x)) / alpha; x where alpha * x > 20. torch.nn.functional.softplus"},
    {"softsign", Saves::X, 3, {}, "x / (1 + |x|). torch.nn.functional.softsign"},
    {"hardtanh", Saves::Y, 2, {}, "min(max(x, -1), 1). torch.nn.functional.hardtanh"},
    {"hardsigmoid", Saves::X, 4, {}, "min(max(x + 3, 0), 6) / 6. torch.nn.functional.hardsigmoid"},
    {"hardswish", Saves::X, 5, {}, "x * hardsigmoid(x). torch.nn.functional.hardswish"},
    {"hardshrink", Saves::Y, 2, Alpha{0.5, true, "lambda"},
     "|x| > alpha ? x : 0. torch.nn.functional.hardshrink"},
    {"softshrink", Saves::Y, 3, Alpha{0.5, true, "lambda"},
     "x > alpha ? x - alpha : x < -alpha ? x + alpha : 0. torch.nn.functional.softshrink"},
    {"exp", Saves::Y, 8, {}, "exp(x). torch.exp"},
    {"abs", Saves::X, 1, {}, "|x|. torch.abs"},
    {"square", Saves::X, 1, {}, "x^2. torch.square"},
    {"neg", Saves::Y, 1, {}, "-x. torch.neg"},
};

void check_alpha(const Row& row, const Attrs& attrs) {
  if (!row.alpha) return;
  const double alpha = attrs.f64("alpha");
  TR_CHECK(row.alpha->zero_allowed ? alpha >= 0 : alpha > 0, "alpha ({}) is {}, expected {}",
           row.alpha->meaning, alpha, row.alpha->zero_allowed ? "at least 0" : "above 0");
}

std::vector<AttrSpec> attrs_of(const Row& row) {
  if (!row.alpha) return {};
  return {{"alpha", row.alpha->default_value, false, row.alpha->meaning}};
}

OpDef forward_def(const Row& row) {
  OpDef def;
  def.name = row.name;
  def.inputs = {"x"};
  def.outputs = {"y"};
  def.attrs = attrs_of(row);
  def.infer = [&row](const Attrs& attrs, Types in) {
    ops::check_floating("x", in[0]);
    check_alpha(row, attrs);
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
  def.attrs = attrs_of(row);
  def.infer = [&row, saved](const Attrs& attrs, Types in) {
    ops::check_floating("dy", in[0]);
    ops::check_same(saved, in[1], in[0], "that of dy");
    check_alpha(row, attrs);
    return std::vector<TensorType>{in[0]};
  };
  def.cost = ops::cost_per_element(row.flops + 2);
  def.in_place = {{0, 0}, {0, 1}};
  def.elementwise = true;
  def.doc = fmt::format("dx = dy * f'(x) of {}, from {}.", row.name, saved);
  return def;
}

const bool kRegistered = [] {
  for (const Row& row : kTable) {
    OpRegistry::instance().add(forward_def(row));
    OpRegistry::instance().add(backward_def(row));
  }
  return true;
}();

}  // namespace
}  // namespace tr
