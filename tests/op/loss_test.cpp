// SPDX-License-Identifier: Apache-2.0
#include <cmath>

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
  return cases;
}

}  // namespace tr::test
