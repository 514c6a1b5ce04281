// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "op/op_harness.h"

namespace tr::test {
namespace {

Tensor some_labels(std::int64_t n, std::int64_t classes) {
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back(std::int32_t((i * 7 + 3) % classes));
  return Tensor::from({n}, labels);
}

Tensor some_probabilities(std::int64_t n, std::int64_t classes) {
  Array logp = ref::log_softmax(array_of(Tensor::uniform({n, classes}, -2, 2, 9)));
  for (double& value : logp.values) value = std::exp(value);
  return tensor_of(logp);
}

OpCase log_softmax_case(const std::string& name, const Shape& shape, float span) {
  OpCase c{.name = "log_softmax_" + name, .op = "log_softmax"};
  c.inputs = {Tensor::uniform(shape, -span, span, 1)};
  c.forward = [](const std::vector<Array>& in) { return ref::log_softmax(in[0]); };
  c.differentiable = {0};
  c.low = {0};
  c.summed = shape.back();
  c.scale = 2 * span;
  c.refusals = {{"integers", {Tensor::zeros({3, 4}, DType::INT32)}, {}, {"int32"}}};
  return c;
}

std::vector<Refusal> label_refusals(const Attrs& attrs) {
  return {
      {"labels of another batch", {Tensor::zeros({4, 5}), some_labels(3, 5)}, attrs, {"[3]", "4"}},
      {"probabilities of other classes",
       {Tensor::zeros({4, 5}), Tensor::zeros({4, 6})},
       attrs,
       {"[4, 6]", "[4, 5]"}},
      {"smoothing above 1",
       {Tensor::zeros({4, 5}), some_labels(4, 5)},
       {{"label_smoothing", 1.5}},
       {"label_smoothing", "1.5"}}};
}

// `op` is nll (on log-probabilities) or softmax_cross_entropy (on scores).
OpCase class_loss_case(const std::string& op, const std::string& name, bool soft, double smoothing,
                       const Shape& shape = {9, 11}) {
  const std::int64_t rows = shape[0], classes = shape[1];
  OpCase c{.name = op + "_" + name, .op = op, .attrs = {{"label_smoothing", smoothing}}};
  c.inputs = {Tensor::uniform(shape, -4, 4, 1),
              soft ? some_probabilities(rows, classes) : some_labels(rows, classes)};
  const bool scores = op != "nll";
  c.forward = [=](const std::vector<Array>& in) {
    return ref::nll(scores ? ref::log_softmax(in[0]) : in[0], in[1], smoothing);
  };
  c.differentiable = {0};
  if (scores) c.low = {0};
  if (!scores) c.dtypes = {DType::FP32};
  c.summed = rows * classes;
  c.scale = 8;
  c.refusals = label_refusals(c.attrs);
  return c;
}

OpCase regression_case(const std::string& op, const std::string& name, const Shape& shape) {
  OpCase c{.name = op + "_" + name, .op = op};
  const bool probabilities = op != "mse";
  c.inputs = {Tensor::uniform(shape, -3, 3, 1),
              Tensor::uniform(shape, probabilities ? 0.0f : -3.0f, probabilities ? 1.0f : 3.0f, 2)};
  c.forward = [=](const std::vector<Array>& in) {
    return probabilities ? ref::bce_with_logits(in[0], in[1]) : ref::mse(in[0], in[1]);
  };
  c.differentiable = {0};
  c.low = {0};
  c.summed = shape.num_elements();
  c.scale = 36;
  c.refusals = {{"target of another shape",
                 {Tensor::zeros({4, 5}), Tensor::zeros({4, 6})},
                 {},
                 {"[4, 6]", "[4, 5]"}}};
  return c;
}

struct PairLoss {
  std::string op, name;
  Attrs attrs;
  ref::ElementLoss f;
  float low = -3, high = 3;  // of the target
  bool mean = true;
};

double bce(double y, double t) {
  return std::max(y, 0.0) - y * t + std::log1p(std::exp(-std::abs(y)));
}

double focal(double y, double t, double alpha, double gamma) {
  const double p = 1 / (1 + std::exp(-y));
  const double balance = alpha < 0 ? 1 : alpha * t + (1 - alpha) * (1 - t);
  return balance * std::pow(1 - (p * t + (1 - p) * (1 - t)), gamma) * bce(y, t);
}

double huber(double d, double delta) {
  return std::abs(d) <= delta ? d * d / 2 : delta * (std::abs(d) - delta / 2);
}

std::vector<PairLoss> pair_losses() {
  return {
      {"l1", "plain", {}, [](double y, double t, auto) { return std::abs(y - t); }},
      {"huber", "plain", {}, [](double y, double t, auto) { return huber(y - t, 1); }},
      {"huber",
       "wide",
       {{"delta", 2.5}},
       [](double y, double t, auto) { return huber(y - t, 2.5); }},
      {"smooth_l1",
       "half",
       {{"beta", 0.5}},
       [](double y, double t, auto) { return huber(y - t, 0.5) / 0.5; }},
      {"smooth_l1",
       "line",
       {{"beta", 0.0}},
       [](double y, double t, auto) { return std::abs(y - t); }},
      {"focal", "plain", {}, [](double y, double t, auto) { return focal(y, t, 0.25, 2); }, 0, 1},
      {"focal",
       "no_balance",
       {{"alpha", -1.0}, {"gamma", 0.5}},
       [](double y, double t, auto) { return focal(y, t, -1, 0.5); },
       0,
       1},
      {"kl_div",
       "probabilities",
       {},
       [](double y, double t, auto) { return t * (std::log(t) - y); },
       0.01f,
       1,
       false},
      {"kl_div",
       "log_target",
       {{"log_target", true}},
       [](double y, double t, auto) { return std::exp(t) * (t - y); },
       -3,
       0,
       false},
  };
}

/// Targets keep away from where f or its derivative jumps, whatever y is.
OpCase pair_case(const PairLoss& loss, const std::string& name, const Shape& shape) {
  OpCase c{.name = loss.op + "_" + loss.name + "_" + name, .op = loss.op, .attrs = loss.attrs};
  Tensor y = Tensor::uniform(shape, -3, 3, 1);
  const Tensor target = Tensor::uniform(shape, loss.low, loss.high, 2);
  const std::vector<double> kinks = {0, -0.5, 0.5, 1, -1, 2.5, -2.5};
  for (std::int64_t i = 0; i < y.num_elements(); ++i) {
    for (const double kink : kinks) {
      float& value = y.data<float>()[i];
      const double from = double(value) - double(target.data<float>()[i]) - kink;
      if (std::abs(from) < 0.03) value += 0.06f;
    }
  }
  c.inputs = {y, target};
  c.forward = [f = loss.f, mean = loss.mean](const std::vector<Array>& in) {
    return ref::pair_loss(in[0], in[1], f, mean);
  };
  c.room = 0.02;
  c.differentiable = {0};
  c.low = {0};
  c.summed = shape.num_elements();
  c.scale = 36;
  c.refusals = {{"target of another shape",
                 {Tensor::zeros({4, 5}), Tensor::zeros({4, 6})},
                 loss.attrs,
                 {"[4, 6]", "[4, 5]"}}};
  return c;
}

OpCase pos_weight_case(const std::string& name, const Shape& shape, std::int64_t weights) {
  OpCase c{.name = "bce_with_logits_pos_weight_" + name, .op = "bce_with_logits"};
  c.inputs = {Tensor::uniform(shape, -3, 3, 1), Tensor::uniform(shape, 0, 1, 2),
              Tensor::uniform({weights}, 0.5f, 4, 3)};
  c.forward = [](const std::vector<Array>& in) {
    const auto f = [&](double y, double t, std::int64_t i) {
      const double p = in[2][i % in[2].shape.num_elements()];
      const double soft = std::log1p(std::exp(-std::abs(y))) + std::max(-y, 0.0);
      return (1 - t) * y + (1 + (p - 1) * t) * soft;
    };
    return ref::pair_loss(in[0], in[1], f);
  };
  c.differentiable = {0};
  c.low = {0};
  c.summed = shape.num_elements();
  c.scale = 36;
  c.refusals = {{"weights of another axis",
                 {Tensor::zeros({4, 5}), Tensor::zeros({4, 5}), Tensor::zeros({4})},
                 {},
                 {"pos_weight has shape [4]", "[5]"}}};
  return c;
}

struct Weighting {
  bool soft = false, weights = true;
  double smoothing = 0;
  std::int64_t ignored = -1;
};

OpCase weighted_case(const std::string& name, const Weighting& how, const Shape& shape = {9, 11}) {
  const std::int64_t rows = shape[0], classes = shape[1];
  OpCase c{.name = "weighted_nll_" + name,
           .op = "weighted_nll",
           .attrs = {{"label_smoothing", how.smoothing}}};
  if (how.ignored >= 0) c.attrs.set("ignore_index", how.ignored);
  const Tensor weight = Tensor::uniform({classes}, 0.5f, 2, 4);
  c.inputs = {Tensor::uniform(shape, -4, 4, 1),
              how.soft ? some_probabilities(rows, classes) : some_labels(rows, classes),
              how.weights ? weight : Tensor{}, Tensor::from({}, std::vector<float>{1.5f})};
  c.forward = [how](const std::vector<Array>& in) {
    return ref::weighted_nll(in[0], in[1], how.weights ? &in[2] : nullptr, in.back()[0],
                             {how.smoothing, how.ignored});
  };
  c.differentiable = {0};
  c.dtypes = {DType::FP32};
  c.summed = rows * classes;
  c.scale = 16;
  c.refusals = {{"weights of other classes",
                 {Tensor::zeros({4, 5}), some_labels(4, 5), Tensor::zeros({6})},
                 c.attrs,
                 {"class_weight is fp32 [6]", "[5]"}}};
  return c;
}

OpCase norm_case(const std::string& name, std::int64_t rows, bool weights, std::int64_t ignored) {
  constexpr std::int64_t kClasses = 7;
  OpCase c{.name = "class_norm_" + name, .op = "class_norm"};
  if (ignored >= 0) c.attrs.set("ignore_index", ignored);
  c.inputs = {some_labels(rows, kClasses),
              weights ? Tensor::uniform({kClasses}, 0.5f, 2, 4) : Tensor{}};
  c.forward = [=](const std::vector<Array>& in) {
    Array norm(Shape{});
    double sum = 0;
    for (std::int64_t n = 0; n < rows; ++n) {
      const auto label = std::int64_t(in[0][n]);
      if (label != ignored) sum += weights ? in[1][label] : 1;
    }
    norm[0] = sum > 0 ? double(rows) / sum : 0;
    return norm;
  };
  c.dtypes = {DType::FP32};
  c.summed = rows;
  c.refusals = {{"no class numbers", {Tensor::zeros({4})}, {}, {"[4]", "[N, C]"}}};
  return c;
}

OpCase scale_case(const std::string& name, const Shape& shape, double factor) {
  OpCase c{.name = "scale_" + name, .op = "scale", .attrs = {{"factor", factor}}};
  c.inputs = {Tensor::uniform(shape, -3, 3, 1)};
  c.forward = [factor](const std::vector<Array>& in) {
    Array y = in[0];
    for (double& value : y.values) value *= factor;
    return y;
  };
  c.differentiable = {0};
  c.low = {0};
  c.scale = 3 * std::abs(factor);
  c.refusals = {{"integers", {Tensor::zeros({3}, DType::INT32)}, c.attrs, {"int32"}}};
  return c;
}

OpCase full_like_case(const std::string& name, const Shape& shape) {
  OpCase c{.name = "full_like_" + name, .op = "full_like", .attrs = {{"value", -1.25}}};
  c.inputs = {Tensor::uniform(shape, -3, 3, 1)};
  c.forward = [](const std::vector<Array>& in) {
    Array y(in[0].shape);
    for (double& value : y.values) value = -1.25;
    return y;
  };
  c.low = {0};
  c.refusals = {{"no number",
                 {Tensor::zeros({3})},
                 {{"value", std::numeric_limits<double>::infinity()}},
                 {"value is inf"}}};
  return c;
}

}  // namespace

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> cases = {log_softmax_case("typical", {9, 11}, 4),
                               log_softmax_case("one_class", {3, 1}, 4),
                               log_softmax_case("wide", {5, 130}, 10)};
  for (const std::string op : {"nll", "softmax_cross_entropy"}) {
    cases.push_back(class_loss_case(op, "hard", false, 0));
    cases.push_back(class_loss_case(op, "hard_smooth", false, 0.1));
    cases.push_back(class_loss_case(op, "hard_smooth_all", false, 1));
    cases.push_back(class_loss_case(op, "soft", true, 0));
    cases.push_back(class_loss_case(op, "soft_smooth", true, 0.1));
  }
  for (const std::string op : {"mse", "bce_with_logits"}) {
    cases.push_back(regression_case(op, "matrix", {7, 5}));
    cases.push_back(regression_case(op, "vector", {7}));
    cases.push_back(regression_case(op, "map", {3, 4, 4, 2}));
  }
  for (const PairLoss& loss : pair_losses()) {
    cases.push_back(pair_case(loss, "matrix", {7, 5}));
    cases.push_back(pair_case(loss, "map", {3, 2, 3, 2}));
  }
  cases.push_back(pos_weight_case("each", {7, 5}, 5));
  cases.push_back(pos_weight_case("one", {3, 4, 2}, 1));
  cases.push_back(weighted_case("weights", {}));
  cases.push_back(weighted_case("ignore", {.weights = false, .ignored = 3}));
  cases.push_back(weighted_case("all", {.smoothing = 0.2, .ignored = 4}));
  cases.push_back(weighted_case("soft", {.soft = true, .smoothing = 0.1}));
  cases.push_back(norm_case("weights", 9, true, -1));
  cases.push_back(norm_case("ignore", 23, false, 3));
  cases.push_back(norm_case("both", 23, true, 3));
  cases.push_back(norm_case("none_counts", 1, true, 3));
  cases.push_back(scale_case("matrix", {7, 5}, 0.75));
  cases.push_back(scale_case("scalar", {}, -2));
  cases.push_back(full_like_case("matrix", {7, 5}));
  return cases;
}

std::vector<OpCase> large_loss_cases() {
  std::vector<OpCase> cases = {log_softmax_case("many_rows", {300007, 10}, 4),
                               log_softmax_case("large", {1999, 1001}, 4),
                               log_softmax_case("huge_rows", {3, 50257}, 4)};
  for (const std::string op : {"nll", "softmax_cross_entropy"}) {
    cases.push_back(class_loss_case(op, "many_rows", false, 0.1, {300007, 10}));
    cases.push_back(class_loss_case(op, "batch", false, 0, {1999, 16}));
    cases.push_back(class_loss_case(op, "large", false, 0.1, {12011, 101}));
    cases.push_back(class_loss_case(op, "large_soft", true, 0.1, {1201, 1001}));
    cases.push_back(class_loss_case(op, "many_soft", true, 0, {5003, 10}));
    cases.push_back(class_loss_case(op, "huge_rows", false, 0.1, {3, 50257}));
    cases.push_back(class_loss_case(op, "huge_rows_soft", true, 0.1, {3, 50257}));
  }
  for (const std::string op : {"mse", "bce_with_logits"}) {
    cases.push_back(regression_case(op, "one_block", {63, 127}));
    cases.push_back(regression_case(op, "large", {2111, 2003}));
  }
  for (const PairLoss& loss : pair_losses()) cases.push_back(pair_case(loss, "large", {2111, 203}));
  cases.push_back(pos_weight_case("large", {2111, 203}, 203));
  cases.push_back(weighted_case("many_rows", {.smoothing = 0.1, .ignored = 4}, {100007, 10}));
  cases.push_back(weighted_case("large", {.smoothing = 0.1, .ignored = 4}, {1201, 1001}));
  cases.push_back(weighted_case("huge_rows", {.ignored = 4}, {3, 50257}));
  cases.push_back(weighted_case("large_soft", {.soft = true, .smoothing = 0.1}, {1201, 101}));
  cases.push_back(norm_case("large", 100007, true, 3));
  cases.push_back(scale_case("large", {2111, 203}, 0.3));
  cases.push_back(full_like_case("large", {2111, 203}));
  return cases;
}

}  // namespace tr::test
