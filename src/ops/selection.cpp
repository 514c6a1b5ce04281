// SPDX-License-Identifier: Apache-2.0
// Elements chosen by a mask or by their place: where, masked_fill, tril, triu.
#include "core/check.h"
#include "core/format.h"
#include "ops/broadcast.h"
#include "renaissance/ops/math.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

std::vector<TensorType> infer_where(const Attrs&, Types in) {
  ops::check_dtype("condition", in[0], DType::BOOL, "it chooses");
  TR_CHECK(in[1].dtype == in[2].dtype, "b has dtype {}, expected {} (that of a)", in[2].dtype,
           in[1].dtype);
  const Shape chosen = ops::broadcast_shape(in[1].shape, in[2].shape);
  return {{ops::broadcast_shape(in[0].shape, chosen), in[1].dtype}};
}

/// What was not chosen gets 0, which no rounding changes: the sums of reduce_to stay exact.
std::vector<TensorId> gradient_where(GraphBuilder& builder, const Node& node, Ids dout) {
  const auto part = [&](bool where_false, std::size_t input) {
    const TensorId masked = builder.add("masked_fill", {dout[0], node.inputs[0]},
                                        {{"value", 0.0}, {"where_false", where_false}});
    return builder.add("reduce_to", {masked, node.inputs[input]});
  };
  return {kNoTensor, part(true, 1), part(false, 2)};
}

std::vector<TensorType> infer_masked_fill(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  ops::check_dtype("mask", in[1], DType::BOOL, "it chooses");
  TR_CHECK(ops::broadcasts_to(in[1].shape, in[0].shape),
           "mask has shape {}, expected {} (that of x) or axes of size 1", in[1].shape,
           in[0].shape);
  TR_CHECK(attrs.f64("value") == attrs.f64("value"), "value is NaN, expected a number");
  return {in[0]};
}

std::vector<TensorId> gradient_masked_fill(GraphBuilder& builder, const Node& node, Ids dout) {
  const Attrs attrs = {{"value", 0.0}, {"where_false", node.attrs.flag("where_false")}};
  return {builder.add("masked_fill", {dout[0], node.inputs[1]}, attrs), kNoTensor};
}

std::vector<TensorType> infer_triangle(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  TR_CHECK(in[0].shape.rank() >= 2, "x has shape {}, expected [..., rows, columns]", in[0].shape);
  TR_CHECK(attrs.f64("value") == attrs.f64("value"), "value is NaN, expected a number");
  return {in[0]};
}

std::vector<TensorId> gradient_triangle(GraphBuilder& builder, const Node& node, Ids dout) {
  Attrs attrs = node.attrs;
  attrs.set("value", 0.0);
  return {builder.add(node.op, {dout[0]}, attrs)};
}

OpDef triangle_def(const char* name, const char* doc) {
  OpDef def;
  def.name = name;
  def.inputs = {"x"};
  def.outputs = {"y"};
  def.attrs = {{"diagonal", std::int64_t{0}, false, "the last (tril) or first (triu) that is kept"},
               {"value", 0.0, false, "of the other elements"}};
  def.infer = infer_triangle;
  def.gradient = gradient_triangle;
  def.cost = ops::cost_per_element(1);
  def.in_place = {{0, 0}};
  def.doc = doc;
  return def;
}

const OpRegistration kWhere{{.name = "where",
                             .inputs = {"condition", "a", "b"},
                             .outputs = {"y"},
                             .infer = infer_where,
                             .gradient = gradient_where,
                             .cost = ops::cost_per_element(1),
                             .doc = "y = condition ? a : b, broadcast. torch.where"}};

const OpRegistration kMaskedFill{
    {.name = "masked_fill",
     .inputs = {"x", "mask"},
     .outputs = {"y"},
     .attrs = {{"value", 0.0, true, "of y where mask holds"},
               {"where_false", false, false, "where mask does not hold instead"}},
     .infer = infer_masked_fill,
     .gradient = gradient_masked_fill,
     .cost = ops::cost_per_element(1),
     .in_place = {{0, 0}},
     .doc = "y = mask ? value : x; mask is broadcast to x. torch.Tensor.masked_fill"}};

const OpRegistration kTril{triangle_def(
    "tril", "y[.., i, j] = j - i <= diagonal ? x : value. torch.tril, where value is 0")};
const OpRegistration kTriu{triangle_def(
    "triu", "y[.., i, j] = j - i >= diagonal ? x : value. torch.triu, where value is 0")};

}  // namespace
}  // namespace tr
