// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/format.h"
#include "ops/broadcast.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

std::vector<TensorType> infer_binary(const Attrs& attrs, Types in) {
  const TensorType y = ops::broadcast_type(in[0], in[1]);
  TR_CHECK(!attrs.flag("keep_shape") || y.shape == in[0].shape,
           "b has shape {}, expected one that broadcasts to a {}", in[1].shape, in[0].shape);
  return {y};
}

/// Sums come from products that are never stored: they are not rounded to the dtype of dy.
std::vector<TensorId> gradient_mul(GraphBuilder& builder, const Node& node, Ids dout) {
  const TensorId a = node.inputs[0], b = node.inputs[1];
  return {builder.add("mul_reduce", {dout[0], b, a}), builder.add("mul_reduce", {dout[0], a, b})};
}

std::vector<TensorType> infer_mul_reduce(const Attrs&, Types in) {
  ops::check_floating("a", in[0]);
  ops::check_dtype("b", in[1], in[0].dtype, "that of a");
  ops::check_dtype("like", in[2], in[0].dtype, "that of a");
  for (const std::size_t i : {1, 2}) {
    TR_CHECK(ops::broadcasts_to(in[i].shape, in[0].shape),
             "{} has shape {}, expected one that broadcasts to a {}", i == 1 ? "b" : "like",
             in[i].shape, in[0].shape);
  }
  return {in[2]};
}

/// The rule sees no shapes: reduce_to vanishes in lowering where nothing was repeated.
std::vector<TensorId> gradient_add(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("reduce_to", {dout[0], node.inputs[0]}),
          builder.add("reduce_to", {dout[0], node.inputs[1]})};
}

std::vector<TensorType> infer_reduce_to(const Attrs&, Types in) {
  ops::check_floating("x", in[0]);
  ops::check_floating("like", in[1]);
  TR_CHECK(ops::broadcasts_to(in[1].shape, in[0].shape),
           "like has shape {}, expected one that broadcasts to x {}", in[1].shape, in[0].shape);
  return {in[1]};
}

std::vector<TensorType> infer_cast(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  const DType to = dtype_from_name(attrs.str("dtype"));
  TR_CHECK(is_floating(to), "dtype is {}, expected fp32, fp16 or bf16", to);
  return {{in[0].shape, to}};
}

/// reduce_to converts to the dtype of what it aims at, and sums nothing between equal shapes.
std::vector<TensorId> gradient_cast(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("reduce_to", {dout[0], node.inputs[0]})};
}

const std::vector<AttrSpec> kAttrs = {
    {"keep_shape", false, false, "whether y must have the shape of a"}};

const OpRegistration kAdd{{.name = "add",
                           .inputs = {"a", "b"},
                           .outputs = {"y"},
                           .attrs = kAttrs,
                           .infer = infer_binary,
                           .gradient = gradient_add,
                           .cost = ops::cost_per_element(1),
                           .in_place = {{0, 0}, {0, 1}},
                           .elementwise = true,
                           .doc = "y = a + b, broadcast. torch.add"}};

const OpRegistration kMul{{.name = "mul",
                           .inputs = {"a", "b"},
                           .outputs = {"y"},
                           .attrs = kAttrs,
                           .infer = infer_binary,
                           .gradient = gradient_mul,
                           .cost = ops::cost_per_element(1),
                           .in_place = {{0, 0}, {0, 1}},
                           .elementwise = true,
                           .doc = "y = a b, broadcast. torch.mul"}};

const OpRegistration kMulReduce{
    {.name = "mul_reduce",
     .inputs = {"a", "b", "like"},
     .outputs = {"y"},
     .infer = infer_mul_reduce,
     .cost = ops::cost_per_input_element(2),
     .type_only_from = 2,
     .doc = "Sum of a b (b is broadcast to a) over the axes along which `like` was broadcast, in "
            "fp32: the gradient of mul. torch.mul(a, b).sum_to_size(like)"}};

const OpRegistration kReduceTo{
    {.name = "reduce_to",
     .inputs = {"x", "like"},
     .outputs = {"y"},
     .infer = infer_reduce_to,
     .cost = ops::cost_per_input_element(1),
     .type_only_from = 1,
     .doc =
         "Sum over the axes along which `like` was broadcast, in fp32, then the dtype of `like`. "
         "torch.Tensor.sum_to_size"}};

const OpRegistration kCast{{.name = "cast",
                            .inputs = {"x"},
                            .outputs = {"y"},
                            .attrs = {{"dtype", std::string("fp32"), true, "fp32, fp16 or bf16"}},
                            .infer = infer_cast,
                            .gradient = gradient_cast,
                            .cost = ops::cost_per_element(1),
                            .elementwise = true,
                            .doc = "x in another dtype, rounded to nearest even. torch.Tensor.to"}};

}  // namespace
}  // namespace tr
