// SPDX-License-Identifier: Apache-2.0
// Losses of a prediction against a target of its shape, element by element: sums over the samples
// of a batch, in fp32. One row of the table is an op and its gradient.
#include <cmath>
#include <functional>

#include "core/check.h"
#include "core/format.h"
#include "ops/rules.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

struct Row {
  const char* name;
  int flops;           // an element, forward
  int backward_flops;  // and backward
  std::vector<AttrSpec> attrs;
  const char* doc;
  const char* backward_doc;
  std::function<void(const Attrs&)> check = {};
  bool pos_weight = false;  // a third input, fp32 [elements of the last axis] or [1]
};

void check_positive(const Attrs& attrs, const char* name) {
  const double value = attrs.f64(name);
  TR_CHECK(value > 0 && std::isfinite(value), "{} is {}, expected a positive number", name, value);
}

void check_not_negative(const Attrs& attrs, const char* name) {
  const double value = attrs.f64(name);
  TR_CHECK(value >= 0 && std::isfinite(value), "{} is {}, expected a number of at least 0", name,
           value);
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"mse",
       3,
       3,
       {},
       "sum over samples of the mean over a sample's elements of (y - target)^2. "
       "torch.nn.MSELoss times N",
       "dy = seed * 2 (y - target) / elements of a sample."},
      {"l1",
       2,
       3,
       {},
       "sum over samples of the mean over a sample's elements of |y - target|. "
       "torch.nn.L1Loss times N",
       "dy = seed * sign(y - target) / elements of a sample."},
      {"huber",
       5,
       4,
       {{"delta", 1.0, false, "where the parabola becomes a line, above 0"}},
       "sum over samples of the mean over a sample's elements, d = y - target, of d^2 / 2 where "
       "|d| <= delta, else delta (|d| - delta / 2). torch.nn.HuberLoss times N",
       "dy = seed * (y - target, at most delta in size) / elements of a sample.",
       [](const Attrs& attrs) { check_positive(attrs, "delta"); }},
      {"smooth_l1",
       5,
       4,
       {{"beta", 1.0, false, "where the parabola becomes a line; 0: l1"}},
       "sum over samples of the mean over a sample's elements, d = y - target, of d^2 / (2 beta) "
       "where |d| < beta, else |d| - beta / 2. torch.nn.SmoothL1Loss times N",
       "dy = seed * (d / beta where |d| < beta, else sign d) / elements of a sample.",
       [](const Attrs& attrs) { check_not_negative(attrs, "beta"); }},
      {"bce_with_logits",
       20,
       12,
       {},
       "sum over samples of the mean over a sample's elements of max(y, 0) - y target + "
       "log(1 + exp(-|y|)); with pos_weight p of (1 - target) y + (1 + (p - 1) target) "
       "(log(1 + exp(-|y|)) + max(-y, 0)). torch.nn.BCEWithLogitsLoss times N",
       "dy = seed * (sigmoid(y) - target) / elements of a sample; with pos_weight seed * "
       "((1 - target) sigmoid(y) - p target (1 - sigmoid(y))) / elements.",
       {},
       true},
      {"focal",
       45,
       60,
       {{"alpha", 0.25, false, "weight of target 1, 1 - alpha of target 0; below 0: 1 for both"},
        {"gamma", 2.0, false, "power of the distance from the target, at least 0"}},
       "sum over samples of the mean over a sample's elements of alpha_t m^gamma bce(y, target), "
       "m = p (1 - target) + (1 - p) target, p = sigmoid(y), alpha_t = alpha target + (1 - alpha) "
       "(1 - target). torchvision.ops.sigmoid_focal_loss times N",
       "dy = seed * alpha_t m^(gamma-1) (m (p - target) - gamma bce (2 target - 1) p (1 - p)) / "
       "elements of a sample.",
       [](const Attrs& attrs) {
         TR_CHECK(attrs.f64("alpha") <= 1, "alpha is {}, expected at most 1 (below 0: off)",
                  attrs.f64("alpha"));
         check_not_negative(attrs, "gamma");
       }},
      {"kl_div",
       12,
       9,
       {{"log_target", false, false, "target holds log-probabilities"}},
       "sum over all elements of target (log target - y) for log-probabilities y; 0 where target "
       "is 0. torch.nn.KLDivLoss(reduction='sum')",
       "dy = -seed * target; with log_target -seed * exp(target)."}};
  return table;
}

void check_pair(const Row& row, const Attrs& attrs, Types in) {
  ops::check_floating("y", in[0]);
  TR_CHECK(in[0].shape.rank() >= 1, "y has shape {}, expected [N, ...]", in[0].shape);
  ops::check_shape("target", in[1], in[0].shape, "that of y");
  ops::check_dtype("target", in[1], DType::FP32, "fields are fp32");
  if (row.check) row.check(attrs);
  if (!row.pos_weight || !ops::given(in, 2)) return;
  ops::check_dtype("pos_weight", in[2], DType::FP32, "losses are fp32");
  const Shape one{1}, each{in[0].shape.back()};
  TR_CHECK(in[2].shape == one || in[2].shape == each,
           "pos_weight has shape {}, expected {} (the last axis of y {}) or {}", in[2].shape, each,
           in[0].shape, one);
}

OpDef forward_def(const Row& row) {
  const std::string backward = std::string(row.name) + "_backward";
  OpDef def;
  def.name = row.name;
  def.inputs = {"y", "target"};
  if (row.pos_weight) {
    def.inputs.push_back("pos_weight");
    def.num_optional_inputs = 1;
  }
  def.outputs = {"loss_sum"};
  def.attrs = row.attrs;
  def.infer = [&row](const Attrs& attrs, Types in) {
    check_pair(row, attrs, in);
    return std::vector<TensorType>{{Shape{}, DType::FP32}};
  };
  def.gradient = [backward](GraphBuilder& builder, const Node& node, Ids dout) {
    std::vector<TensorId> inputs = {dout[0]};
    inputs.insert(inputs.end(), node.inputs.begin(), node.inputs.end());
    return std::vector<TensorId>{builder.add(backward, inputs, node.attrs)};
  };
  def.cost = ops::cost_per_input_element(row.flops);
  def.precision = Precision::HIGH;
  def.doc = row.doc;
  return def;
}

OpDef backward_def(const Row& row) {
  OpDef def;
  def.name = std::string(row.name) + "_backward";
  def.inputs = {"seed", "y", "target"};
  if (row.pos_weight) {
    def.inputs.push_back("pos_weight");
    def.num_optional_inputs = 1;
  }
  def.outputs = {"dy"};
  def.attrs = row.attrs;
  def.infer = [&row](const Attrs& attrs, Types in) {
    ops::check_scalar("seed", in[0], DType::FP32);
    check_pair(row, attrs, in.subspan(1));
    return std::vector<TensorType>{in[1]};
  };
  def.cost = ops::cost_per_element(row.backward_flops);
  def.in_place = {{0, 1}};
  def.precision = Precision::HIGH;
  def.doc = row.backward_doc;
  return def;
}

const bool kRegistered = [] {
  for (const Row& row : rows()) {
    OpRegistry::instance().add(forward_def(row));
    OpRegistry::instance().add(backward_def(row));
  }
  return true;
}();

}  // namespace
}  // namespace tr
