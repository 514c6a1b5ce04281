// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of two inputs, broadcast to one shape: one row each. The arithmetic is in
// src/backend/binary_functors.h. NAME_da and NAME_db are the gradients, summed in fp32 over the
// axes along which the input was repeated. add and mul are in arithmetic.cpp.
#include <string>

#include "core/check.h"
#include "core/format.h"
#include "ops/broadcast.h"
#include "renaissance/ops/math.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

struct Row {
  const char* name;
  int flops;  // an element
  const char* doc;
};

const Row kTable[] = {
    {"sub", 1, "y = a - b, broadcast. torch.sub"},
    {"div", 1, "y = a / b, broadcast. torch.div"},
    {"pow", 16, "y = a^b, broadcast. torch.pow"},
    {"minimum", 1, "y = min(a, b), broadcast; NaN wins. torch.minimum"},
    {"maximum", 1, "y = max(a, b), broadcast; NaN wins. torch.maximum"},
};

std::vector<TensorType> infer_forward(const Attrs&, Types in) {
  return {ops::broadcast_type(in[0], in[1])};
}

/// dy has the shape of both, broadcast; the gradient the type of input `which`.
std::vector<TensorType> infer_gradient(Types in, std::size_t which) {
  const TensorType y = ops::broadcast_type(in[1], in[2]);
  ops::check_same("dy", in[0], y, "a and b, broadcast");
  return {in[1 + which]};
}

std::vector<TensorId> gradient(GraphBuilder& builder, const Node& node, Ids dout) {
  const std::vector<TensorId> inputs = {dout[0], node.inputs[0], node.inputs[1]};
  return {builder.add(node.op + "_da", inputs), builder.add(node.op + "_db", inputs)};
}

OpDef forward_def(const Row& row) {
  OpDef def;
  def.name = row.name;
  def.inputs = {"a", "b"};
  def.outputs = {"y"};
  def.infer = infer_forward;
  def.gradient = gradient;
  def.cost = ops::cost_per_element(row.flops);
  def.doc = row.doc;
  return def;
}

OpDef gradient_def(const std::string& name, int flops, std::size_t which) {
  OpDef def;
  def.name = name + (which == 0 ? "_da" : "_db");
  def.inputs = {"dy", "a", "b"};
  def.outputs = {which == 0 ? "da" : "db"};
  def.infer = [which](const Attrs&, Types in) { return infer_gradient(in, which); };
  def.cost = ops::cost_per_input_element(flops + 2);
  def.doc = fmt::format("The gradient of {} for {}, summed in fp32 where that was repeated.", name,
                        which == 0 ? "a" : "b");
  return def;
}

// prelu: its weight stays fp32.

std::vector<ParamSpec> prelu_parameters(const Attrs& attrs, const LayerContext& context) {
  const Shape& x = context.inputs[0].shape;
  TR_CHECK(x.rank() >= 2, "x has shape {}, expected [N, ..., C]", x);
  const std::int64_t count = attrs.flag("shared") ? 1 : x.back();
  return {{.name = "weight", .type = {Shape{count}}, .kind = ParamKind::NORM_WEIGHT, .fill = 0.25}};
}

void check_prelu(const TensorType& x, const TensorType& weight) {
  ops::check_floating("x", x);
  ops::check_dtype("weight", weight, DType::FP32, "parameters are fp32");
  TR_CHECK(ops::broadcasts_to(weight.shape, x.shape),
           "weight has shape {}, expected [1] or [C], which broadcasts to x {}", weight.shape,
           x.shape);
}

std::vector<TensorType> infer_prelu(const Attrs&, Types in) {
  check_prelu(in[0], in[1]);
  return {in[0]};
}

std::vector<TensorType> infer_prelu_gradient(Types in, std::size_t which) {
  check_prelu(in[1], in[2]);
  ops::check_same("dy", in[0], in[1], "that of x");
  return {in[1 + which]};
}

OpDef prelu_def() {
  OpDef def;
  def.name = "prelu";
  def.inputs = {"x", "weight"};
  def.outputs = {"y"};
  def.attrs = {{"shared", true, false, "one slope for all channels, as a layer"}};
  def.infer = infer_prelu;
  def.gradient = gradient;
  def.cost = ops::cost_per_element(2);
  def.parameters = prelu_parameters;
  def.doc = "y = x > 0 ? x : weight * x. torch.nn.functional.prelu, channels last";
  return def;
}

OpDef prelu_gradient_def(std::size_t which) {
  OpDef def = gradient_def("prelu", 2, which);
  def.infer = [which](const Attrs&, Types in) { return infer_prelu_gradient(in, which); };
  return def;
}

// Comparisons.

struct Comparison {
  const char* name;
  bool logical;  // takes bool
  const char* doc;
};

const Comparison kComparisons[] = {
    {"equal", true, "a = b, as bool, broadcast. torch.eq"},
    {"not_equal", true, "a != b, as bool, broadcast. torch.ne"},
    {"less", false, "a < b, as bool, broadcast. torch.lt"},
    {"less_equal", false, "a <= b, as bool, broadcast. torch.le"},
    {"greater", false, "a > b, as bool, broadcast. torch.gt"},
    {"greater_equal", false, "a >= b, as bool, broadcast. torch.ge"},
    {"logical_and", true, "a and b, as bool, broadcast; 0 is false. torch.logical_and"},
    {"logical_or", true, "a or b, as bool, broadcast; 0 is false. torch.logical_or"},
    {"logical_xor", true, "a or b but not both, as bool, broadcast. torch.logical_xor"},
};

std::vector<TensorType> infer_comparison(const Comparison& row, Types in) {
  const DType dtype = in[0].dtype;
  const bool takes = is_floating(dtype) || dtype == DType::INT32 || dtype == DType::INT64 ||
                     (row.logical && dtype == DType::BOOL);
  TR_CHECK(takes, "a has dtype {}, expected a floating one, int32 or int64{}", dtype,
           row.logical ? ", or bool" : "");
  ops::check_dtype("b", in[1], dtype, "that of a");
  return {{ops::broadcast_shape(in[0].shape, in[1].shape), DType::BOOL}};
}

OpDef comparison_def(const Comparison& row) {
  OpDef def;
  def.name = row.name;
  def.inputs = {"a", "b"};
  def.outputs = {"y"};
  def.infer = [&row](const Attrs&, Types in) { return infer_comparison(row, in); };
  def.cost = ops::cost_per_element(1);
  def.doc = row.doc;
  return def;
}

const bool kRegistered = [] {
  OpRegistry& registry = OpRegistry::instance();
  for (const Row& row : kTable) {
    registry.add(forward_def(row));
    for (const std::size_t which : {0, 1}) registry.add(gradient_def(row.name, row.flops, which));
  }
  registry.add(prelu_def());
  for (const std::size_t which : {0, 1}) registry.add(prelu_gradient_def(which));
  for (const Comparison& row : kComparisons) registry.add(comparison_def(row));
  return true;
}();

}  // namespace
}  // namespace tr
