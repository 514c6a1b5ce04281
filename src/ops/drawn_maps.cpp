// SPDX-License-Identifier: Apache-2.0
// Functions of an element and a draw of its own: rrelu, alpha_dropout. Their arithmetic is in
// src/backend/drawn_functors.h.
#include <cmath>

#include "core/check.h"
#include "core/format.h"
#include "ops/step_rules.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

// Ten rounds of Philox give four elements their draws: about 25 operations each.
constexpr int kFlopsPerElement = 28;

const AttrSpec kDrawId = {"draw_id", std::int64_t{0}, false,
                          "hash of the layer's name, set by the graph builder"};
const std::vector<AttrSpec> kSlopes = {{"lower", 1.0 / 8, false, "smallest slope below 0"},
                                       {"upper", 1.0 / 3, false, "largest slope below 0"}};

std::vector<AttrSpec> with(std::vector<AttrSpec> attrs, const std::vector<AttrSpec>& more) {
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

const std::vector<AttrSpec> kRreluAttrs =
    with(kSlopes, {{"per", std::string("element"), false, "element: what has one draw"}, kDrawId});
const std::vector<AttrSpec> kAlphaAttrs = {
    {"p", 0.5, true, "probability of an element's loss"},
    {"per", std::string("element"), false,
     "what has one draw: element or channel (of the last axis)"},
    kDrawId};

void check_slopes(const Attrs& attrs) {
  const double lower = attrs.f64("lower"), upper = attrs.f64("upper");
  TR_CHECK(std::isfinite(lower) && std::isfinite(upper) && lower <= upper,
           "the slopes are {} to {}, expected finite numbers, lower <= upper", lower, upper);
}

std::vector<TensorType> infer_rrelu(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  check_slopes(attrs);
  TR_CHECK(attrs.str("per") == "element", "per is '{}', expected element", attrs.str("per"));
  ops::check_draws(in, 1);
  return {in[0]};
}

std::vector<TensorType> infer_rrelu_backward(const Attrs& attrs, Types in) {
  ops::check_floating("dy", in[0]);
  ops::check_same("x", in[1], in[0], "that of dy");
  check_slopes(attrs);
  ops::check_draws(in, 2);
  return {in[0]};
}

std::vector<TensorType> infer_rrelu_eval(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  check_slopes(attrs);
  return {in[0]};
}

std::vector<TensorType> infer_alpha(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  const double p = attrs.f64("p");
  TR_CHECK(p >= 0 && p < 1, "p is {}, expected 0 <= p < 1 (the probability of a loss)", p);
  const std::string& per = attrs.str("per");
  TR_CHECK(per == "element" || per == "channel", "per is '{}', expected element or channel", per);
  ops::check_draws(in, 1);
  return {in[0]};
}

const OpRegistration kRrelu{
    {.name = "rrelu",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = kRreluAttrs,
     .infer = infer_rrelu,
     .gradient =
         [](GraphBuilder& builder, const Node& node, Ids dout) {
           return std::vector<TensorId>{builder.add(
               "rrelu_backward", {dout[0], node.inputs[0], node.inputs.at(1), node.inputs.at(2)},
               node.attrs)};
         },
     .cost = ops::cost_per_element(kFlopsPerElement),
     .in_place = {{0, 0}},
     .needs_draws = true,
     .elementwise = true,
     .eval_op = "rrelu_eval",
     .doc = "x > 0 ? x : slope x, slope drawn from [lower, upper) for each element. "
            "torch.nn.functional.rrelu(training=True)"}};

const OpRegistration kRreluBackward{{.name = "rrelu_backward",
                                     .inputs = {"dy", "x", "counters", "step_ints"},
                                     .outputs = {"dx"},
                                     .attrs = kRreluAttrs,
                                     .infer = infer_rrelu_backward,
                                     .cost = ops::cost_per_element(kFlopsPerElement),
                                     .in_place = {{0, 0}, {0, 1}},
                                     .doc = "dx = x > 0 ? dy : slope dy: the same draws again."}};

const OpRegistration kRreluEval{
    {.name = "rrelu_eval",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = kRreluAttrs,
     .infer = infer_rrelu_eval,
     .cost = ops::cost_per_element(2),
     .in_place = {{0, 0}},
     .doc = "x > 0 ? x : (lower + upper) / 2 x. torch.nn.functional.rrelu"}};

const OpRegistration kAlphaDropout{
    {.name = "alpha_dropout",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = kAlphaAttrs,
     .infer = infer_alpha,
     .gradient =
         [](GraphBuilder& builder, const Node& node, Ids dout) {
           return std::vector<TensorId>{builder.add("alpha_dropout_backward",
                                                    {dout[0], node.inputs.at(1), node.inputs.at(2)},
                                                    node.attrs)};
         },
     .cost = ops::cost_per_element(kFlopsPerElement),
     .in_place = {{0, 0}},
     .needs_draws = true,
     .elementwise = true,
     .eval_identity = true,
     .doc = "y = a (draw >= p ? x : l) + b, l = -1.7581, a = 1 / sqrt((1 - p)(1 + p l^2)), "
            "b = -a p l. torch.nn.functional.alpha_dropout, per channel feature_alpha_dropout"}};

const OpRegistration kAlphaDropoutBackward{
    {.name = "alpha_dropout_backward",
     .inputs = {"dy", "counters", "step_ints"},
     .outputs = {"dx"},
     .attrs = kAlphaAttrs,
     .infer = infer_alpha,
     .cost = ops::cost_per_element(kFlopsPerElement),
     .in_place = {{0, 0}},
     .doc = "dx = a dy where the forward pass kept x, else 0: the same draws again."}};

}  // namespace
}  // namespace tr
