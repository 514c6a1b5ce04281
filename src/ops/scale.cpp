// SPDX-License-Identifier: Apache-2.0
// Constants in a graph: a factor, and a tensor of one value.
#include <cmath>

#include "core/check.h"
#include "core/format.h"
#include "ops/rules.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

std::vector<TensorType> infer_scale(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  TR_CHECK(std::isfinite(attrs.f64("factor")), "factor is {}, expected a finite number",
           attrs.f64("factor"));
  return {in[0]};
}

std::vector<TensorId> gradient_scale(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("scale", {dout[0]}, node.attrs)};
}

std::vector<TensorType> infer_full_like(const Attrs& attrs, Types in) {
  TR_CHECK(std::isfinite(attrs.f64("value")), "value is {}, expected a finite number",
           attrs.f64("value"));
  return {{in[0].shape, DType::FP32}};
}

const OpRegistration kScale{{.name = "scale",
                             .inputs = {"x"},
                             .outputs = {"y"},
                             .attrs = {{"factor", 1.0, true, "a finite number"}},
                             .infer = infer_scale,
                             .gradient = gradient_scale,
                             .cost = ops::cost_per_element(1),
                             .in_place = {{0, 0}},
                             .doc = "factor * x. torch.mul with a number"}};

const OpRegistration kFullLike{{.name = "full_like",
                                .inputs = {"x"},
                                .outputs = {"y"},
                                .attrs = {{"value", 0.0, true, "of every element"}},
                                .infer = infer_full_like,
                                .cost = ops::cost_per_element(0, 0),
                                .precision = Precision::HIGH,
                                .type_only_from = 0,
                                .doc = "fp32 of x's shape, every element `value`; no gradient. "
                                       "torch.full_like"}};

}  // namespace
}  // namespace tr
