// SPDX-License-Identifier: Apache-2.0
#include "algo/own_loss.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/check.h"
#include "core/fnv.h"
#include "core/format.h"
#include "graph/blueprint_node.h"

namespace tr {

namespace {

constexpr const char* kOutput = "output";
constexpr const char* kOutputDot = "output.";

bool is_output(const std::string& field) {
  return field == kOutput || field.starts_with(kOutputDot);
}

std::string output_field(std::size_t index) {
  return index == 0 ? kOutput : fmt::format("{}{}", kOutputDot, index);
}

/// Inputs that `value` depends on, in the order in which it needs them.
std::vector<Value> inputs_of(const Value& value) {
  std::unordered_set<const ValueNode*> seen;
  std::vector<Value> inputs;
  place_in_order(
      value, [&](const ValueNode& node) { return seen.contains(&node); },
      [&](const Value& v) {
        seen.insert(v.node().get());
        if (!v.node()->application) inputs.push_back(v);
      });
  return inputs;
}

/// The model's inputs of an expression's fields: floats come as fp32.
std::map<std::string, TensorType> operand_types(const LossOperands& operands) {
  std::map<std::string, TensorType> types = operands.sample_fields;
  for (std::size_t i = 0; i < operands.output_types.size(); ++i)
    types[output_field(i)] = operands.output_types[i];
  for (auto& [field, type] : types) {
    if (is_floating(type.dtype)) type.dtype = DType::FP32;
  }
  return types;
}

void check_outputs(const LossTerm& term, std::size_t count) {
  for (const Value& in : term.own.node()->inputs) {
    const std::string& field = in.node()->field;
    if (!is_output(field)) continue;
    std::vector<std::string> known;
    for (std::size_t i = 0; i < count; ++i) known.push_back(output_field(i));
    TR_CHECK(std::find(known.begin(), known.end(), field) != known.end(),
             "loss {}: it reads \"{}\", expected one of {} (outputs of the model)", term.own_name,
             field, fmt::join(known, ", "));
  }
}

/// The type of the expression's value: that of its last layer, or of the output that it is.
TensorType result_type(const ArchPlan& plan, std::int64_t batch) {
  if (!plan.layers.empty()) return plan.layers.back().types.front();
  const TensorType& sample = plan.inputs.front().sample_type;
  return {sample.shape.prepend(batch), sample.dtype};
}

/// The expression's layers. One number may have any length of batch behind it; numbers of the
/// samples must follow that length.
ArchPlan expand_loss(const LossTerm& term, const LossOperands& operands) {
  check_outputs(term, operands.output_types.size());
  const std::map<std::string, TensorType> types = operand_types(operands);
  ArchPlan plan;
  for (const std::int64_t batch : {3, 2}) {
    plan = expand(term.own, types, {.batch = batch, .prefix = term.own_name});
    const TensorType type = result_type(plan, batch);
    TR_CHECK(type.shape == Shape{} || type.shape == Shape{batch},
             "loss {}: for a batch of {} its value has shape {}, expected [] (one number) or [{}] "
             "(one for each sample)",
             term.own_name, batch, type.shape, batch);
    TR_CHECK(type.dtype == DType::FP32, "loss {}: its value is {}, expected fp32", term.own_name,
             type.dtype);
  }
  TR_CHECK(plan.params.empty(), "loss {}: it has the parameter {}, expected none", term.own_name,
           plan.params.empty() ? "" : plan.params.front().name);
  return plan;
}

class OwnLossBuilder {
 public:
  OwnLossBuilder(GraphBuilder& builder, const LossTerm& term, const LossOperands& operands)
      : builder_(builder), term_(term), operands_(operands) {}

  TensorId add() {
    const ArchPlan plan = expand_loss(term_, operands_);
    std::vector<TensorId> values;
    for (const ArchInput& in : plan.inputs) values.push_back(operand(in));
    for (const ArchLayer& layer : plan.layers) {
      const OpDef& def = OpRegistry::instance().get(layer.op);
      TR_CHECK(!def.needs_draws, "loss {}: {} (layer \"{}\") draws numbers, expected none",
               term_.own_name, layer.op, layer.name);
      builder_.at(GraphId::LOSS, layer.name, layer.where);
      std::vector<TensorId> inputs;
      for (const int value : layer.inputs) inputs.push_back(values[std::size_t(value)]);
      values.push_back(builder_.add_op(layer.op, inputs, layer.attrs).front());
    }
    builder_.at(GraphId::LOSS, term_.own_name);
    return sum_of_samples(values[std::size_t(plan.outputs.front())]);
  }

 private:
  TensorId operand(const ArchInput& in) {
    if (!is_output(in.field)) {
      const TensorId field = operands_.field(in.field);
      return is_floating(in.sample_type.dtype) ? as_fp32(field) : field;
    }
    const std::size_t dot = std::string_view(kOutputDot).size();
    const std::size_t index = in.field == kOutput ? 0 : std::stoul(in.field.substr(dot));
    return as_fp32(operands_.outputs[index]);
  }

  TensorId as_fp32(TensorId id) {
    return builder_.add("cast", {id}, {{"dtype", std::string("fp32")}});
  }

  /// Graphs know no batch: a one for each sample comes from the shape of an output. One number
  /// times them stands for every sample; numbers of samples stay what they are.
  TensorId sum_of_samples(TensorId value) {
    TensorId ones = builder_.add("full_like", {operands_.outputs.front()}, {{"value", 1.0}});
    std::vector<std::int64_t> axes;
    for (int i = 0; i < operands_.output_types.front().shape.rank(); ++i) axes.push_back(i + 1);
    if (!axes.empty()) ones = builder_.add("mean", {ones}, {{"axes", axes}});
    const TensorId each = builder_.add("mul", {ones, value}, {{"keep_shape", true}});
    return builder_.add("sum", {each});
  }

  GraphBuilder& builder_;
  const LossTerm& term_;
  const LossOperands& operands_;
};

/// The expression as lines "%2 = sub{}(output,target)", each value once.
class Listing {
 public:
  std::vector<std::string> of(const BluePrint& part, const std::vector<std::string>& inputs) {
    const BluePrintNode& node = *part.node();
    switch (node.kind) {
      case BluePrintNode::Kind::LEAF: return {line(node.op + node.attrs.text(), inputs)};
      case BluePrintNode::Kind::SEQ: {
        std::vector<std::string> values = inputs;
        for (const BluePrint& child : node.children) values = of(child, values);
        return values;
      }
      case BluePrintNode::Kind::RESIDUAL: {
        std::vector<std::string> branches;
        for (const BluePrint& child : node.children) branches.push_back(of(child, inputs).front());
        if (branches.size() == 1) branches.push_back(inputs.front());
        return {line("residual", branches)};
      }
      case BluePrintNode::Kind::SHARED: return of(node.children.front(), inputs);
      case BluePrintNode::Kind::DAG: return of_dag(node, inputs);
    }
    throw_as<InternalError>("BluePrint of unknown kind");
  }
  const std::string& text() const { return text_; }

 private:
  std::vector<std::string> of_dag(const BluePrintNode& node,
                                  const std::vector<std::string>& inputs) {
    std::unordered_map<const void*, std::vector<std::string>> done;  // by application or input
    for (std::size_t i = 0; i < inputs.size(); ++i) done[node.inputs[i].node().get()] = {inputs[i]};
    const auto key = [](const ValueNode& v) -> const void* {
      return v.application ? static_cast<const void*>(v.application.get()) : &v;
    };
    const auto text = [&](const Value& v) {
      return done.at(key(*v.node()))[std::size_t(v.node()->output_index)];
    };
    std::vector<std::string> outputs;
    for (const Value& value : node.outputs) {
      place_in_order(
          value, [&](const ValueNode& v) { return done.contains(key(v)); },
          [&](const Value& v) {
            std::vector<std::string> arguments;
            for (const Value& in : v.node()->application->inputs()) arguments.push_back(text(in));
            done[key(*v.node())] = of(v.node()->application->producer, arguments);
          });
      outputs.push_back(text(value));
    }
    return outputs;
  }

  std::string line(const std::string& what, const std::vector<std::string>& inputs) {
    const std::string name = fmt::format("%{}", count_++);
    text_ += fmt::format("{} = {}({})\n", name, what, fmt::join(inputs, ","));
    return name;
  }

  int count_ = 0;
  std::string text_;
};

LossTerm own_term(std::string name, const Value& value) {
  TR_CHECK(value.node() != nullptr, "loss {}: its value is empty, as one is that was moved from",
           name);
  LossTerm term;
  term.kind = LossTerm::Kind::OWN;
  term.field.clear();
  term.own_name = std::move(name);
  term.own = model(inputs_of(value), {value});
  term.validate();
  return term;
}

}  // namespace

Value model_output(int index) {
  TR_CHECK(index >= 0, "model_output: index is {}, expected at least 0", index);
  return input(output_field(std::size_t(index)));
}

OwnLoss::OwnLoss(std::string name, const Value& value) : term_(own_term(std::move(name), value)) {}

OwnLoss& OwnLoss::class_scores() {
  term_.class_scores = true;
  return *this;
}

void validate_own_loss(const LossTerm& term) {
  const auto fits = [](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  TR_CHECK(!term.own_name.empty() && std::all_of(term.own_name.begin(), term.own_name.end(), fits),
           "loss: its name is \"{}\", expected letters, digits, _ and -", term.own_name);
  TR_CHECK(term.own.node() != nullptr && term.own.num_outputs() == 1,
           "loss {}: it has no expression, expected one value", term.own_name);
  const std::vector<Value>& inputs = term.own.node()->inputs;
  TR_CHECK(std::any_of(inputs.begin(), inputs.end(),
                       [](const Value& in) { return is_output(in.node()->field); }),
           "loss {}: it reads no output of the model, expected model_output()", term.own_name);
}

std::vector<std::string> own_loss_fields(const LossTerm& term) {
  std::set<std::string> fields;
  for (const Value& in : term.own.node()->inputs) {
    if (!is_output(in.node()->field)) fields.insert(in.node()->field);
  }
  return {fields.begin(), fields.end()};
}

std::string own_loss_digest(const LossTerm& term) {
  Listing listing;
  std::vector<std::string> inputs;
  for (const Value& in : term.own.node()->inputs) inputs.push_back(in.node()->field);
  const std::string result = listing.of(term.own, inputs).front();
  return fmt::format("{:016x}", fnv1a64(listing.text() + result));
}

TensorId add_own_loss(GraphBuilder& builder, const LossTerm& term, const LossOperands& operands) {
  return OwnLossBuilder(builder, term, operands).add();
}

}  // namespace tr
