// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of one input: one row each. The arithmetic is in
// src/backend/elementwise_functors.h.
#include <optional>
#include <string>

#include "core/check.h"
#include "ops/unary.h"

namespace tr {
namespace {

using ops::Saves;

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

const bool kRegistered = [] {
  for (const Row& row : kTable) {
    ops::register_unary({row.name, row.saves, row.flops, attrs_of(row),
                         [&row](const Attrs& attrs) { check_alpha(row, attrs); }, row.doc});
  }
  return true;
}();

}  // namespace
}  // namespace tr
