// SPDX-License-Identifier: Apache-2.0
// glu: half of x times a function of the other half.
#include <string>

#include "core/check.h"
#include "core/format.h"
#include "ops/rules.h"
#include "renaissance/ops/sequence.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

constexpr int kFlops = 12;  // an element of y: the gate and the product

std::vector<TensorType> infer(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  const Shape& x = in[0].shape;
  const int axis = ops::normalised_axis(attrs.i64("axis"), x);
  TR_CHECK(x[axis] % 2 == 0, "x has shape {}, expected an even length along axis {}", x,
           attrs.i64("axis"));
  const std::string& gate = attrs.str("gate");
  bool known = false;
  for (const char* name : {"sigmoid", "silu", "gelu", "gelu_tanh", "relu", "tanh"})
    known = known || gate == name;
  TR_CHECK(known, "gate is '{}', expected sigmoid, silu, gelu, gelu_tanh, relu or tanh", gate);
  const std::int64_t gated = attrs.i64("gated");
  TR_CHECK(gated == 0 || gated == 1, "gated is {}, expected 0 or 1 (which half)", gated);
  return {{x.with_dim(axis, x[axis] / 2), in[0].dtype}};
}

std::vector<TensorType> infer_backward(const Attrs& attrs, Types in) {
  ops::check_same("dy", in[0], infer(attrs, in.subspan(1, 1))[0], "half of x");
  return {in[1]};
}

std::vector<TensorId> gradient(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("glu_backward", {dout[0], node.inputs[0]}, node.attrs)};
}

const std::vector<AttrSpec> kAttrs = {
    {"axis", std::int64_t{-1}, false, "that is halved; negative from the back"},
    {"gate", std::string("sigmoid"), false, "sigmoid, silu, gelu, gelu_tanh, relu or tanh"},
    {"gated", std::int64_t{1}, false, "the half that goes through the gate, 0 or 1"}};

const OpRegistration kGlu{{.name = "glu",
                           .inputs = {"x"},
                           .outputs = {"y"},
                           .attrs = kAttrs,
                           .infer = infer,
                           .gradient = gradient,
                           .cost = ops::cost_per_element(kFlops),
                           .doc = "One half of x along `axis` times gate(the other half). "
                                  "torch.nn.functional.glu"}};

const OpRegistration kGluBackward{
    {.name = "glu_backward",
     .inputs = {"dy", "x"},
     .outputs = {"dx"},
     .attrs = kAttrs,
     .infer = infer_backward,
     .cost = ops::cost_per_element(kFlops),
     .doc = "dx = dy gate(gated half) in the plain half, dy (plain half) gate' in the gated one."}};

BluePrint gated(const char* gate, std::int64_t half, int axis, std::source_location where) {
  return layer("glu", {{"axis", std::int64_t(axis)}, {"gate", std::string(gate)}, {"gated", half}},
               1, where);
}

}  // namespace

BluePrint glu(int axis, std::source_location where) { return gated("sigmoid", 1, axis, where); }
BluePrint swiglu(int axis, std::source_location where) { return gated("silu", 0, axis, where); }
BluePrint geglu(int axis, std::source_location where) { return gated("gelu", 1, axis, where); }
BluePrint reglu(int axis, std::source_location where) { return gated("relu", 1, axis, where); }

}  // namespace tr
