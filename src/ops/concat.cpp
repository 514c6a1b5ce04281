// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/format.h"
#include "ops/rules.h"
#include "renaissance/ops/shape.h"

namespace tr {

BluePrint concat(int axis, int num_inputs, std::source_location where) {
  return layer("concat", {{"axis", std::int64_t(axis)}}, num_inputs, where);
}

Value concat(const std::vector<Value>& values, int axis, std::source_location where) {
  TR_CHECK(!values.empty(), "concat: no value is given, expected at least one");
  return concat(axis, int(values.size()), where).apply_one(values);
}

namespace {

using ops::Ids;
using ops::Types;

std::vector<TensorType> infer(const Attrs& attrs, Types in) {
  ops::check_floating("x0", in[0]);
  const Shape& first = in[0].shape;
  const int axis = ops::normalised_axis(attrs.i64("axis"), first);
  TR_CHECK(axis != 0, "axis is {}, the batch of x0 {}; expected another one", attrs.i64("axis"),
           first);
  std::int64_t length = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    ops::check_dtype(fmt::format("x{}", i), in[i], in[0].dtype, "that of x0");
    const bool fits = in[i].shape.rank() == first.rank() &&
                      in[i].shape.with_dim(axis, 0) == first.with_dim(axis, 0);
    TR_CHECK(fits, "x{} has shape {}, expected {} (that of x0) on all axes but {}", i, in[i].shape,
             first, axis);
    length += in[i].shape[axis];
  }
  return {{first.with_dim(axis, length), in[0].dtype}};
}

std::vector<TensorId> gradient(GraphBuilder& builder, const Node& node, Ids dout) {
  std::vector<TensorId> inputs = {dout[0]};
  inputs.insert(inputs.end(), node.inputs.begin(), node.inputs.end());
  return builder.add_op(
      "concat_backward", inputs,
      {{"axis", node.attrs.i64("axis")}, {"num_inputs", std::int64_t(node.inputs.size())}});
}

std::vector<TensorType> infer_backward(const Attrs& attrs, Types in) {
  const Types parts = in.subspan(1);
  TR_CHECK(std::int64_t(parts.size()) == attrs.i64("num_inputs"),
           "{} inputs after dy, expected num_inputs = {}", parts.size(), attrs.i64("num_inputs"));
  const TensorType whole = infer(attrs, parts).front();
  ops::check_same("dy", in[0], whole, "the joined inputs");
  return {parts.begin(), parts.end()};
}

Cost cost_backward(const Attrs&, Types in, Types out) {
  return {0, ops::bytes_moved(in.first(1), out)};
}

const AttrSpec kAxis = {"axis", std::int64_t{-1}, false, "as in memory; negative from the back"};

const OpRegistration kConcat{{.name = "concat",
                              .inputs = {"x..."},
                              .outputs = {"y"},
                              .attrs = {kAxis},
                              .infer = infer,
                              .gradient = gradient,
                              .cost = ops::cost_per_element(0),
                              .doc = "Joins tensors along `axis`. torch.cat"}};

const OpRegistration kConcatBackward{
    {.name = "concat_backward",
     .inputs = {"dy", "x..."},
     .outputs = {"dx"},
     .attrs = {kAxis, {"num_inputs", std::int64_t{1}, true, "number of joined tensors"}},
     .infer = infer_backward,
     .cost = cost_backward,
     .num_outputs = [](const Attrs& attrs) { return int(attrs.i64("num_inputs")); },
     .type_only_from = 1,
     .doc = "Cuts dy into the pieces that concat joined. torch.split"}};

}  // namespace
}  // namespace tr
