// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "core/check.h"
#include "support/reference.h"

namespace tr::test::ref {
namespace {

struct Formula {
  double (*f)(double x, double a);  // a: the op's only attribute, or 0
  std::vector<double> (*kinks)(double a) = [](double) { return std::vector<double>{}; };
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double log1p_exp(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
std::vector<double> at_zero(double) { return {0}; }
std::vector<double> at_both(double a) { return {-a, a}; }

constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;

const std::map<std::string, Formula>& formulas() {
  static const std::map<std::string, Formula> table = {
      {"relu", {[](double x, double) { return std::max(x, 0.0); }, at_zero}},
      {"relu6",
       {[](double x, double) { return std::clamp(x, 0.0, 6.0); },
        [](double) {
          return std::vector<double>{0, 6};
        }}},
      {"leaky_relu", {[](double x, double a) { return x > 0 ? x : a * x; }, at_zero}},
      {"elu", {[](double x, double a) { return x > 0 ? x : a * std::expm1(x); }, at_zero}},
      {"celu", {[](double x, double a) { return x > 0 ? x : a * std::expm1(x / a); }, at_zero}},
      {"selu",
       {[](double x, double) { return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x)); },
        at_zero}},
      {"sigmoid", {[](double x, double) { return sigmoid(x); }}},
      {"log_sigmoid", {[](double x, double) { return -log1p_exp(-x); }}},
      {"tanh", {[](double x, double) { return std::tanh(x); }}},
      {"tanhshrink", {[](double x, double) { return x - std::tanh(x); }}},
      {"silu", {[](double x, double) { return x * sigmoid(x); }}},
      {"mish", {[](double x, double) { return x * std::tanh(log1p_exp(x)); }}},
      {"gelu", {[](double x, double) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }}},
      {"gelu_tanh", {[](double x, double) {
         return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
       }}},
      {"softplus",
       {[](double x, double a) { return a * x > 20 ? x : log1p_exp(a * x) / a; },
        [](double a) { return std::vector<double>{20 / a}; }}},
      {"softsign", {[](double x, double) { return x / (1 + std::abs(x)); }}},
      {"hardtanh",
       {[](double x, double) { return std::clamp(x, -1.0, 1.0); },
        [](double) { return at_both(1); }}},
      {"hardsigmoid",
       {[](double x, double) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); },
        [](double) { return at_both(3); }}},
      {"hardswish",
       {[](double x, double) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); },
        [](double) { return at_both(3); }}},
      {"hardshrink", {[](double x, double a) { return std::abs(x) > a ? x : 0; }, at_both}},
      {"softshrink",
       {[](double x, double a) { return x > a    ? x - a
                                        : x < -a ? x + a
                                                 : 0; }, at_both}},
      {"exp", {[](double x, double) { return std::exp(x); }}},
      {"abs", {[](double x, double) { return std::abs(x); }, at_zero}},
      {"square", {[](double x, double) { return x * x; }}},
      {"neg", {[](double x, double) { return -x; }}},
  };
  return table;
}

const Formula& formula_of(const std::string& op) {
  const auto found = formulas().find(op);
  TR_CHECK(found != formulas().end(), "no reference formula for activation {}", op);
  return found->second;
}

double parameter(const Attrs& attrs) {
  for (const auto& [name, value] : attrs.values()) {
    if (const double* number = std::get_if<double>(&value)) return *number;
  }
  return 0;
}

}  // namespace

double activation(const std::string& op, const Attrs& attrs, double x) {
  return formula_of(op).f(x, parameter(attrs));
}

std::vector<double> kinks(const std::string& op, const Attrs& attrs) {
  return formula_of(op).kinks(parameter(attrs));
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const auto& [name, formula] : formulas()) names.push_back(name);
  return names;
}

}  // namespace tr::test::ref
