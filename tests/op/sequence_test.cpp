// SPDX-License-Identifier: Apache-2.0
// matmul, softmax along any axis, norms of each sample.
#include <algorithm>
#include <cmath>
#include <limits>

#include "op/op_harness.h"
#include "ops/matmul.h"
#include "ops/sample_norm.h"
#include "support/compare.h"
#include "support/reference_tensor.h"

namespace tr::test {
namespace {

using Ints = std::vector<std::int64_t>;

Array matmul(const Array& a, const Array& b, bool ta, bool tb, const Shape& shape) {
  const std::int64_t k = a.shape[ta ? -2 : -1];
  Array y(shape);
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
    const Ints place = ref::coordinates(shape, i);
    Ints of_a = place, of_b = place;
    const std::size_t row = place.size() - 2, column = place.size() - 1;
    for (std::int64_t t = 0; t < k; ++t) {
      of_a[ta ? column : row] = place[row];
      of_a[ta ? row : column] = t;
      of_b[tb ? row : column] = place[column];
      of_b[tb ? column : row] = t;
      y[i] += ref::at(a, of_a) * ref::at(b, of_b);
    }
  }
  return y;
}

OpCase matmul_case(const std::string& name, const Shape& a, const Shape& b, bool ta = false,
                   bool tb = false) {
  OpCase c{.name = "matmul_" + name,
           .op = "matmul",
           .attrs = {{"transpose_a", ta}, {"transpose_b", tb}}};
  c.inputs = {Tensor::uniform(a, -1, 1, 1), Tensor::uniform(b, -1, 1, 2)};
  const Shape shape = matmul_geometry(c.attrs, a, b).y;
  c.forward = [=](const std::vector<Array>& in) { return matmul(in[0], in[1], ta, tb, shape); };
  c.differentiable = {0, 1};
  c.low = {0, 1};
  // Sums over k, and in the gradients over m or n and what was repeated.
  c.summed = std::max({a[-1], a[-2], b[-1], b[-2]}) *
             (shape.num_elements() /
                  std::max<std::int64_t>(1, std::min(a.num_elements(), b.num_elements())) +
              1);
  const bool repeats = a.num_elements() / (a[-1] * a[-2]) != b.num_elements() / (b[-1] * b[-2]);
  // Gradients of what was repeated are rounded to the dtype before they are summed.
  c.scale = repeats ? 8 : 2;
  c.refusals = {
      {"other terms",
       {Tensor::zeros({4, 5}), Tensor::zeros({4, 3})},
       {},
       {"b has shape [4, 3], expected 5 terms"}},
      {"a vector", {Tensor::zeros({4, 5}), Tensor::zeros({5})}, {}, {"expected two axes or more"}}};
  return c;
}

OpCase softmax_case(bool log, const std::string& name, const Shape& x, std::int64_t axis) {
  OpCase c{.name = (log ? "log_softmax_axis_" : "softmax_") + name,
           .op = log ? "log_softmax_axis" : "softmax",
           .attrs = {{"axis", axis}}};
  c.inputs = {Tensor::uniform(x, -3, 3, 1)};
  const int at = int(axis < 0 ? axis + x.rank() : axis);
  c.forward = [log, at](const std::vector<Array>& in) {
    const Array& x = in[0];
    const Array sums = ref::reduce(x, x.shape.with_dim(at, 1), x.shape.with_dim(at, 1),
                                   [](const std::vector<double>& v) {
                                     double sum = 0;
                                     for (const double value : v) sum += std::exp(value);
                                     return sum;
                                   });
    return ref::combine(x, sums, [log](double value, double sum) {
      return log ? value - std::log(sum) : std::exp(value) / sum;
    });
  };
  c.differentiable = {0};
  c.low = {0};
  c.summed = x[at];
  c.scale = log ? 8 : 1;
  // A gradient made from rounded log-probabilities: the sum of dy is multiplied by their error.
  if (log) c.scale = 8 * std::sqrt(double(x[at]));
  c.refusals = {
      {"no such axis", {Tensor::zeros({4, 5})}, {{"axis", std::int64_t{2}}}, {"axis is 2"}}};
  return c;
}

/// Half of x along an axis times the gate of the other half.
OpCase glu_case(const std::string& gate, const std::string& name, const Shape& x, std::int64_t axis,
                std::int64_t gated) {
  OpCase c{.name = "glu_" + gate + "_" + name,
           .op = "glu",
           .attrs = {{"gate", gate}, {"axis", axis}, {"gated", gated}}};
  c.inputs = {Tensor::uniform(x, -3, 3, 1)};
  const int at = int(axis < 0 ? axis + x.rank() : axis);
  c.forward = [gate, at, gated](const std::vector<Array>& in) {
    const std::int64_t length = in[0].shape[at] / 2;
    const auto half = [&](std::int64_t which) {
      return ref::moved(in[0], in[0].shape.with_dim(at, length),
                        [&](std::vector<std::int64_t> place) {
                          place[std::size_t(at)] += which * length;
                          return place;
                        });
    };
    return ref::combine(half(1 - gated), half(gated), [&](double plain, double value) {
      return plain * ref::activation(gate, {}, value);
    });
  };
  c.differentiable = {0};
  c.low = {0};
  c.scale = 3;
  c.refusals = {
      {"odd length", {Tensor::zeros({4, 5})}, {}, {"x has shape [4, 5], expected an even length"}},
      {"no such gate", {Tensor::zeros({4, 6})}, {{"gate", std::string("exp")}}, {"gate is 'exp'"}},
      {"no such half", {Tensor::zeros({4, 6})}, {{"gated", std::int64_t{2}}}, {"gated is 2"}}};
  return c;
}

Array normalised(const std::vector<Array>& in, const SampleNorm& norm, bool centres, double eps) {
  const Array& x = in[0];
  Array y(x.shape);
  for (std::int64_t s = 0; s < norm.samples; ++s) {
    for (std::int64_t g = 0; g < norm.groups; ++g) {
      const auto element = [&](std::int64_t j) {
        const std::int64_t row = s * norm.spatial + j / norm.channels;
        return row * norm.width() + g * norm.channels + j % norm.channels;
      };
      double mean = 0, var = 0;
      const auto length = double(norm.length());
      for (std::int64_t j = 0; centres && j < norm.length(); ++j) mean += x[element(j)] / length;
      for (std::int64_t j = 0; j < norm.length(); ++j) {
        var += (x[element(j)] - mean) * (x[element(j)] - mean) / length;
      }
      for (std::int64_t j = 0; j < norm.length(); ++j) {
        const std::int64_t channel = g * norm.channels + j % norm.channels;
        y[element(j)] = (x[element(j)] - mean) / std::sqrt(var + eps) * in[1][channel];
        if (in.size() > 2) y[element(j)] += in[2][channel];
      }
    }
  }
  return y;
}

OpCase norm_case(const std::string& op, const std::string& name, const Shape& x, Attrs attrs,
                 bool bias = true) {
  constexpr double kEps = 1e-3;
  const bool centres = op != "rms_norm";
  attrs.set("eps", kEps);
  if (centres) attrs.set("bias", bias);
  OpCase c{.name = op + "_" + name, .op = op, .attrs = attrs};
  const SampleNorm norm = sample_norm(attrs, x);
  c.inputs = {Tensor::uniform(x, -1.5f, 2, 1), Tensor::uniform(norm.weight, 0.5f, 2, 2)};
  if (centres && bias) c.inputs.push_back(Tensor::uniform(norm.weight, -1, 1, 3));
  c.forward = [=](const std::vector<Array>& in) { return normalised(in, norm, centres, kEps); };
  c.differentiable = {0, 1};
  if (centres && bias) c.differentiable.push_back(2);
  c.low = {0};
  c.summed = std::max(norm.length(), norm.rows());
  c.scale = 12;
  c.refusals = {{"weight of another length",
                 {Tensor::zeros({3, 4, 6}), Tensor::zeros({5})},
                 op == "group_norm" ? Attrs{{"groups", std::int64_t{2}}, {"bias", false}}
                 : centres          ? Attrs{{"bias", false}}
                                    : Attrs{},
                 {"weight is fp32 [5], expected fp32 [6]"}}};
  return c;
}

Attrs groups(std::int64_t count) { return {{"groups", count}}; }
Attrs axes(std::int64_t count) { return {{"num_axes", count}}; }

}  // namespace

std::vector<OpCase> sequence_cases() {
  std::vector<OpCase> cases = {matmul_case("plain", {5, 7}, {7, 3}),
                               matmul_case("one", {1, 1}, {1, 1}),
                               matmul_case("a", {7, 5}, {7, 3}, true),
                               matmul_case("b", {5, 7}, {3, 7}, false, true),
                               matmul_case("both", {7, 5}, {3, 7}, true, true),
                               matmul_case("batch", {3, 5, 7}, {3, 7, 4}),
                               matmul_case("scores", {2, 5, 9, 4}, {2, 5, 9, 4}, false, true),
                               matmul_case("batch_a", {2, 5, 7, 3}, {2, 5, 7, 4}, true),
                               matmul_case("weight", {3, 5, 7}, {7, 4}),
                               matmul_case("weight_b", {2, 3, 5, 7}, {4, 7}, false, true),
                               matmul_case("repeats_a", {5, 7}, {3, 7, 4}),
                               matmul_case("crossed", {2, 1, 5, 7}, {1, 3, 7, 4}),
                               matmul_case("odd", {2, 9, 17}, {2, 17, 5})};
  for (const bool log : {false, true}) {
    cases.push_back(softmax_case(log, "last", {5, 33}, -1));
    cases.push_back(softmax_case(log, "first", {7, 5}, 0));
    cases.push_back(softmax_case(log, "middle", {2, 9, 3, 5}, 1));
    cases.push_back(softmax_case(log, "one", {4, 1}, 1));
  }
  const std::vector<OpCase> gates = {
      glu_case("sigmoid", "last", {5, 34}, -1, 1), glu_case("sigmoid", "first", {6, 5}, 0, 1),
      glu_case("silu", "middle", {2, 6, 3}, 1, 0), glu_case("gelu", "last", {3, 2, 10}, 2, 1),
      glu_case("gelu_tanh", "one", {3, 2}, -1, 0), glu_case("tanh", "last", {7, 6}, -1, 1)};
  cases.insert(cases.end(), gates.begin(), gates.end());
  const std::vector<OpCase> norms = {
      norm_case("layer_norm", "rows", {5, 33}, axes(1)),
      norm_case("layer_norm", "sequence", {2, 3, 7}, axes(1)),
      norm_case("layer_norm", "two_axes", {3, 4, 5}, axes(2)),
      norm_case("layer_norm", "no_bias", {5, 6}, axes(1), false),
      norm_case("rms_norm", "rows", {5, 33}, axes(1)),
      norm_case("rms_norm", "two_axes", {3, 4, 5}, axes(2)),
      norm_case("group_norm", "image", {2, 3, 4, 6}, groups(3)),
      norm_case("group_norm", "one_group", {3, 5, 4}, groups(1)),
      norm_case("group_norm", "instance", {2, 3, 3, 5}, groups(5)),
      norm_case("group_norm", "no_bias", {4, 2, 6}, groups(2), false)};
  cases.insert(cases.end(), norms.begin(), norms.end());
  return cases;
}

std::vector<OpCase> large_sequence_cases() {
  return {matmul_case("large", {257, 515}, {515, 129}),
          matmul_case("large_scores", {3, 4, 129, 64}, {3, 4, 129, 64}, false, true),
          softmax_case(false, "large_rows", {3001, 130}, -1),
          softmax_case(false, "large_wide", {17, 50257}, -1),
          softmax_case(false, "large_side", {7, 129, 513}, 1),
          glu_case("silu", "large", {3001, 770}, -1, 0),
          glu_case("sigmoid", "large_middle", {7, 130, 513}, 1, 1),
          norm_case("layer_norm", "large", {3001, 768}, axes(1)),
          norm_case("layer_norm", "large_wide", {37, 4097}, axes(1)),
          norm_case("rms_norm", "large", {3001, 768}, axes(1)),
          norm_case("group_norm", "large", {9, 28, 28, 96}, groups(32))};
}

namespace {

TEST(MatmulTest, ASumOfNoTermsIsZero) {
  const Tensor y = run_op("matmul", {Tensor::zeros({2, 3, 0}), Tensor::zeros({2, 0, 4})}).front();
  EXPECT_TRUE(same_bytes(y, Tensor::zeros({2, 3, 4})));
}

TEST(MatmulTest, RowsThatMeetOneMatrixAreOneProduct) {
  const MatmulGeometry folded =
      matmul_geometry({{"transpose_a", false}, {"transpose_b", true}}, {6, 5, 7}, {4, 7});
  EXPECT_EQ(folded.num_products(), 1);
  EXPECT_EQ(folded.m, 30);
  const MatmulGeometry crossed =
      matmul_geometry({{"transpose_a", false}, {"transpose_b", false}}, {2, 1, 5, 7}, {1, 3, 7, 4});
  EXPECT_EQ(crossed.num_products(), 6);
  EXPECT_EQ(crossed.operands(4), (std::pair<std::int64_t, std::int64_t>{1, 1}));
}

TEST(SoftmaxTest, RowsOfMinusInfinityAndLargeScores) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from({2, 3}, std::vector<float>{1e4f, -kInf, 1e4f, 0, -kInf, -kInf});
  const Tensor y = run_op("softmax", {x}).front();
  EXPECT_TRUE(same_bytes(y, Tensor::from({2, 3}, std::vector<float>{0.5, 0, 0.5, 1, 0, 0})));
}

}  // namespace
}  // namespace tr::test
