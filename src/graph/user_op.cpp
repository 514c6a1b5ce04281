// SPDX-License-Identifier: Apache-2.0
#include "renaissance/graph/user_op.h"

#include "core/check.h"
#include "graph/computation_graph.h"
#include "graph/op_def.h"

namespace tr {

struct GradientScope::State {
  GraphBuilder& builder;
  const Node& node;
  std::span<const TensorId> douts;
};

namespace {

GraphTensor at(std::span<const TensorId> ids, int index, const char* what, const std::string& op) {
  TR_CHECK(index >= 0 && std::size_t(index) < ids.size(),
           "{}: its gradient asks for {} {}, expected below {}", op, what, index, ids.size());
  return {ids[std::size_t(index)]};
}

std::vector<TensorId> ids_of(const std::vector<GraphTensor>& tensors) {
  std::vector<TensorId> ids;
  for (const GraphTensor tensor : tensors) ids.push_back(tensor.empty() ? kNoTensor : tensor.id);
  return ids;
}

ParamSpec to_spec(const std::string& op, const UserParam& param) {
  TR_CHECK(!param.name.empty(), "{}: a parameter has no name", op);
  TR_CHECK(param.type.dtype == DType::FP32, "{}: parameter {} is {}, expected fp32", op, param.name,
           name_of(param.type.dtype));
  const bool weight = param.kind == UserParam::Kind::WEIGHT;
  return {.name = param.name,
          .type = param.type,
          .kind = weight ? ParamKind::WEIGHT : ParamKind::BIAS,
          .fan_in = param.fan_in,
          .fan_out = param.fan_out,
          .fill = param.fill};
}

Cost default_cost(UserOp::Types in, UserOp::Types out) {
  Cost cost{.flops = out.front().shape.num_elements()};
  for (const TensorType& type : in) cost.bytes += bytes_of(type);
  for (const TensorType& type : out) cost.bytes += bytes_of(type);
  return cost;
}

/// The rule of a user in the words of the compiler.
auto gradient_rule(const UserOp& op) {
  return [rule = op.gradient, name = op.name, count = op.inputs.size()](
             GraphBuilder& builder, const Node& node, std::span<const TensorId> douts) {
    GradientScope::State state{builder, node, douts};
    GradientScope scope(state);
    const std::vector<TensorId> ids = ids_of(rule(scope));
    TR_CHECK(ids.size() == count, "{}: its gradient gives {} tensors, expected {} (one an input)",
             name, ids.size(), count);
    return std::vector<TensorId>(ids.begin(), ids.begin() + std::ptrdiff_t(node.inputs.size()));
  };
}

}  // namespace

const Attrs& GradientScope::attrs() const { return state_.node.attrs; }

GraphTensor GradientScope::input(int index) const {
  return at(state_.node.inputs, index, "input", state_.node.op);
}

GraphTensor GradientScope::output(int index) const {
  return at(state_.node.outputs, index, "output", state_.node.op);
}

GraphTensor GradientScope::dout(int index) const {
  return at(state_.douts, index, "the gradient of output", state_.node.op);
}

GraphTensor GradientScope::add(const std::string& op, const std::vector<GraphTensor>& inputs,
                               Attrs attrs) {
  const std::vector<GraphTensor> outputs = add_all(op, inputs, std::move(attrs));
  TR_CHECK(outputs.size() == 1, "{}: it has {} outputs, use add_all()", op, outputs.size());
  return outputs.front();
}

std::vector<GraphTensor> GradientScope::add_all(const std::string& op,
                                                const std::vector<GraphTensor>& inputs,
                                                Attrs attrs) {
  std::vector<GraphTensor> outputs;
  for (const TensorId id : state_.builder.add_op(op, ids_of(inputs), std::move(attrs)))
    outputs.push_back({id});
  return outputs;
}

void register_op(UserOp op) {
  TR_CHECK(!op.outputs.empty(), "op '{}' is registered without outputs", op.name);
  OpDef def;
  def.name = op.name;
  def.inputs = op.inputs;
  def.outputs = op.outputs;
  for (UserAttr& attr : op.attrs) {
    def.attrs.push_back(
        {std::move(attr.name), std::move(attr.default_value), false, std::move(attr.doc)});
  }
  def.num_optional_inputs = op.num_optional_inputs;
  def.infer = op.infer;
  if (op.gradient) def.gradient = gradient_rule(op);
  def.cost = [work = op.work](const Attrs& attrs, UserOp::Types in, UserOp::Types out) {
    if (!work) return default_cost(in, out);
    const OpWork own = work(attrs, in, out);
    return Cost{own.flops, own.bytes};
  };
  if (op.parameters) {
    def.parameters = [rule = op.parameters, name = op.name](const Attrs& attrs,
                                                            const LayerContext& context) {
      std::vector<ParamSpec> specs;
      for (const UserParam& param : rule(attrs, context.inputs))
        specs.push_back(to_spec(name, param));
      return specs;
    };
  }
  def.in_place = op.in_place;
  def.precision = op.fp32_output ? Precision::HIGH : Precision::FOLLOW;
  def.doc = op.doc;
  OpRegistry::instance().add(std::move(def));
}

}  // namespace tr
