// SPDX-License-Identifier: Apache-2.0
// Ops whose output is the bytes of their input: they need no kernel.
#include "core/check.h"
#include "core/format.h"
#include "ops/rules.h"
#include "renaissance/ops/shape.h"

namespace tr {

BluePrint flatten(std::source_location where) { return layer("flatten", {}, 1, where); }

namespace {

using ops::Ids;
using ops::Types;

std::vector<TensorType> same_type(const Attrs&, Types in) { return {in[0]}; }

Cost no_cost(const Attrs&, Types, Types) { return {}; }

std::vector<TensorType> infer_flatten(const Attrs&, Types in) {
  const Shape& x = in[0].shape;
  TR_CHECK(x.rank() >= 2,
           "x has shape {}, expected [N, ...] with at least one axis after the batch", x);
  return {{Shape{x[0], x.drop_first().num_elements()}, in[0].dtype}};
}

std::vector<TensorId> gradient_flatten(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("reshape_like", {dout[0], node.inputs[0]})};
}

std::vector<TensorType> infer_reshape_like(const Attrs&, Types in) {
  TR_CHECK(in[0].shape.num_elements() == in[1].shape.num_elements(),
           "x has shape {}, expected as many elements as {}", in[0].shape, in[1].shape);
  return {{in[1].shape, in[0].dtype}};
}

const OpRegistration kFlatten{
    {.name = "flatten",
     .inputs = {"x"},
     .outputs = {"y"},
     .infer = infer_flatten,
     .gradient = gradient_flatten,
     .cost = no_cost,
     .views = {{0, 0}},
     .flattens = true,
     .doc = "[N, ...] -> [N, product]. torch.nn.Flatten, except for the order in memory "
            "(H, W, C)"}};

const OpRegistration kReshapeLike{
    {.name = "reshape_like",
     .inputs = {"x", "like"},
     .outputs = {"y"},
     .infer = infer_reshape_like,
     .gradient = gradient_flatten,
     .cost = no_cost,
     .views = {{0, 0}},
     .type_only_from = 1,
     .doc = "x in the shape of `like`; the gradient of flatten. torch.Tensor.view_as"}};

const OpRegistration kIdentity{{.name = "identity",
                                .inputs = {"x"},
                                .outputs = {"y"},
                                .infer = same_type,
                                .gradient = [](GraphBuilder&, const Node&,
                                               Ids dout) { return std::vector<TensorId>{dout[0]}; },
                                .cost = no_cost,
                                .views = {{0, 0}},
                                .elementwise = true,
                                .doc = "y = x. torch.nn.Identity"}};

const OpRegistration kStopGradient{
    {.name = "stop_gradient",
     .inputs = {"x"},
     .outputs = {"y"},
     .infer = same_type,
     .gradient = [](GraphBuilder&, const Node&, Ids) { return std::vector<TensorId>{kNoTensor}; },
     .cost = no_cost,
     .views = {{0, 0}},
     .elementwise = true,
     .doc = "y = x without a gradient. torch.Tensor.detach"}};

}  // namespace
}  // namespace tr
