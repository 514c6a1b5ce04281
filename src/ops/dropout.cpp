// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/format.h"
#include "graph/step_tables.h"
#include "ops/step_rules.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

// Ten rounds of Philox give four elements their draws: about 25 operations each.
constexpr int kFlopsPerElement = 25;

std::vector<TensorType> infer(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  const double p = attrs.f64("p");
  TR_CHECK(p >= 0 && p < 1, "p is {}, expected 0 <= p < 1 (the probability of a zero)", p);
  const std::string& per = attrs.str("per");
  TR_CHECK(per == "element" || per == "channel" || per == "sample",
           "per is '{}', expected element, channel or sample (what is dropped as one)", per);
  ops::check_draws(in, 1);
  return {in[0]};
}

std::vector<TensorId> gradient(GraphBuilder& builder, const Node& node, Ids dout) {
  return {
      builder.add("dropout_backward", {dout[0], node.inputs.at(1), node.inputs.at(2)}, node.attrs)};
}

const std::vector<AttrSpec> kAttrs = {
    {"p", 0.5, true, "probability of a zero"},
    {"per", std::string("element"), false,
     "what has one draw: element, channel (of the last axis) or sample"},
    {"draw_id", std::int64_t{0}, false, "hash of the layer's name, set by the graph builder"}};

const OpRegistration kDropout{
    {.name = "dropout",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = kAttrs,
     .infer = infer,
     .gradient = gradient,
     .cost = ops::cost_per_element(kFlopsPerElement),
     .in_place = {{0, 0}},
     .needs_draws = true,
     .elementwise = true,
     .eval_identity = true,
     .doc = "y = x / (1 - p) where draw(seed, step, draw_id, sample, element) >= p, "
            "else 0. torch.nn.functional.dropout; per channel dropout2d, per sample "
            "torchvision.ops.stochastic_depth"}};

const OpRegistration kDropoutBackward{
    {.name = "dropout_backward",
     .inputs = {"dy", "counters", "step_ints"},
     .outputs = {"dx"},
     .attrs = kAttrs,
     .infer = infer,
     .cost = ops::cost_per_element(kFlopsPerElement),
     .in_place = {{0, 0}},
     .doc = "dx = dy / (1 - p) where the forward pass kept x, else 0: the same "
            "draws again."}};

}  // namespace
}  // namespace tr
