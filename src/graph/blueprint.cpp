// SPDX-License-Identifier: Apache-2.0
#include "renaissance/graph/blueprint.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/check.h"
#include "graph/blueprint_node.h"

namespace tr {
namespace {

constexpr int kMaxBluePrintDepth = 1000;  // calls inside each other that the smallest stacks hold

void check_chainable(const char* who, const BluePrint& part) {
  TR_CHECK(part.node() != nullptr, "{}: a part is empty, expected a layer", who);
  TR_CHECK(part.num_inputs() == 1 && part.num_outputs() == 1,
           "{}: a part has {} inputs and {} outputs, expected one of each", who, part.num_inputs(),
           part.num_outputs());
}

auto is_in(const std::unordered_set<const ValueNode*>& seen) {
  return [&seen](const ValueNode& node) { return seen.contains(&node); };
}

/// Sets a node's depth from what it holds.
/// @throws InvalidArgument  it is deeper than what works through it may go into itself.
void set_depth(BluePrintNode& node) {
  int inside = 0;
  for (const BluePrint& child : node.children) inside = std::max(inside, child.node()->depth);
  std::unordered_set<const ValueNode*> seen;
  for (const std::vector<Value>* values : {&node.outputs, &node.order}) {
    for (const Value& value : *values) {
      place_in_order(value, is_in(seen), [&](const Value& v) {
        seen.insert(v.node().get());
        if (v.node()->application)
          inside = std::max(inside, v.node()->application->producer.node()->depth);
      });
    }
  }
  node.depth = inside + 1;
  TR_CHECK(node.depth <= kMaxBluePrintDepth,
           "{} blueprints lie inside each other, expected at most {}; seq() takes a whole list of "
           "layers, and values are chained at any length",
           node.depth, kMaxBluePrintDepth);
}

/// Every way from an output back ends at a listed input.
void check_reach_inputs(const std::vector<Value>& outputs, const std::vector<Value>& inputs) {
  std::unordered_set<const ValueNode*> seen;
  for (const Value& in : inputs) seen.insert(in.node().get());
  for (const Value& out : outputs) {
    place_in_order(out, is_in(seen), [&](const Value& value) {
      TR_CHECK(value.node()->application != nullptr,
               "model: an output depends on input('{}'), which is not among the listed inputs",
               value.node()->field);
      seen.insert(value.node().get());
    });
  }
}

BluePrint wrap(BluePrintNode node) {
  set_depth(node);
  return BluePrint(std::make_shared<const BluePrintNode>(std::move(node)));
}

const BluePrintNode& node_of(const BluePrint& part, const char* who) {
  TR_CHECK(part.node() != nullptr, "{}: the BluePrint is empty, as one is that was moved from",
           who);
  return *part.node();
}

void check_values(const char* who, const std::vector<Value>& values) {
  for (const Value& value : values) {
    TR_CHECK(value.node() != nullptr, "{}: a value is empty, as one is that was moved from", who);
  }
}

}  // namespace

ValueNode::Application::~Application() {
  thread_local std::unique_ptr<Held>* waiting = nullptr;  // the outermost call's
  if (waiting != nullptr) {
    held_->next = std::move(*waiting);
    *waiting = std::move(held_);
    return;
  }
  std::unique_ptr<Held> first = std::move(held_);
  waiting = &first;
  while (first != nullptr) {
    const std::unique_ptr<Held> last = std::move(first);
    first = std::move(last->next);
    last->values.clear();  // calls of this destructor put theirs in front of `first`
  }
  waiting = nullptr;
}

int BluePrint::num_inputs() const { return node_of(*this, "num_inputs").num_inputs; }
int BluePrint::num_outputs() const { return node_of(*this, "num_outputs").num_outputs; }

std::vector<Value> BluePrint::apply(const std::vector<Value>& inputs) const {
  TR_CHECK(node_ != nullptr, "an empty BluePrint is applied to values");
  TR_CHECK(int(inputs.size()) == node_->num_inputs, "{}: applied to {} values, expected {}",
           node_->op.empty() ? "BluePrint" : node_->op, inputs.size(), node_->num_inputs);
  check_values("apply", inputs);
  auto application = std::make_shared<const ValueNode::Application>(*this, inputs);
  std::vector<Value> outputs;
  for (int i = 0; i < node_->num_outputs; ++i) {
    outputs.emplace_back(std::make_shared<const ValueNode>(ValueNode{application, i, ""}));
  }
  return outputs;
}

Value BluePrint::apply_one(const std::vector<Value>& inputs) const {
  TR_CHECK(node_ != nullptr, "an empty BluePrint is applied to values");
  TR_CHECK(node_->num_outputs == 1,
           "a BluePrint with {} outputs is called as a function, use apply()", node_->num_outputs);
  return apply(inputs).front();
}

BluePrint BluePrint::named(std::string name) const {
  TR_CHECK(node_ != nullptr, "an empty BluePrint is named '{}'", name);
  TR_CHECK(!name.empty() && name.front() != '.' && name.back() != '.',
           "name '{}' of a BluePrint is empty or begins or ends with a dot", name);
  BluePrintNode copy = *node_;
  copy.name = std::move(name);
  return wrap(std::move(copy));
}

BluePrint layer(const std::string& op, Attrs attrs, int num_inputs, std::source_location where) {
  TR_CHECK(num_inputs >= 1, "{}: {} inputs, expected at least one", op, num_inputs);
  BluePrintNode node;
  node.kind = BluePrintNode::Kind::LEAF;
  node.op = op;
  node.attrs = std::move(attrs);
  node.where = where;
  node.num_inputs = num_inputs;
  return wrap(std::move(node));
}

BluePrint seq(std::vector<BluePrint> children) {
  TR_CHECK(!children.empty(), "seq: it is empty, expected at least one layer");
  for (const BluePrint& child : children) check_chainable("seq", child);
  BluePrintNode node;
  node.kind = BluePrintNode::Kind::SEQ;
  node.children = std::move(children);
  return wrap(std::move(node));
}

BluePrint residual(const BluePrint& body, const BluePrint& shortcut) {
  check_chainable("residual", body);
  check_chainable("residual", shortcut);
  BluePrintNode node;
  node.kind = BluePrintNode::Kind::RESIDUAL;
  node.children = {body, shortcut};
  return wrap(std::move(node));
}

BluePrint residual(const BluePrint& body) {
  check_chainable("residual", body);
  BluePrintNode node;
  node.kind = BluePrintNode::Kind::RESIDUAL;
  node.children = {body};
  return wrap(std::move(node));
}

BluePrint repeat(const BluePrint& layer, int times) {
  TR_CHECK(times >= 1, "repeat: times is {}, expected at least 1", times);
  return seq(std::vector<BluePrint>(std::size_t(times), layer));
}

BluePrint shared(const BluePrint& layer) {
  TR_CHECK(layer.node() != nullptr, "shared: the layer is empty");
  BluePrintNode node;
  node.kind = BluePrintNode::Kind::SHARED;
  node.name = layer.node()->name;
  node.children = {layer};
  node.identity = std::make_shared<const char>('s');
  node.num_inputs = layer.num_inputs();
  node.num_outputs = layer.num_outputs();
  return wrap(std::move(node));
}

namespace {

using Replaced = std::unordered_map<const ValueNode*, Value>;

/// The value with every layer before it placed at `where`; inputs stay the same.
Value value_at(const Value& value, const Where& where, Replaced& done) {
  const auto replaced = [&](const Value& v) {
    return v.node()->application ? done.at(v.node().get()) : v;
  };
  const auto known = [&](const ValueNode& node) {
    return !node.application || done.contains(&node);
  };
  place_in_order(value, known, [&](const Value& v) {
    const ValueNode& node = *v.node();
    std::vector<Value> inputs;
    for (const Value& in : node.application->inputs()) inputs.push_back(replaced(in));
    const BluePrint producer = placed_at(node.application->producer, where);
    done.emplace(&node, producer.apply(inputs)[std::size_t(node.output_index)]);
  });
  return replaced(value);
}

}  // namespace

BluePrint placed_at(const BluePrint& part, const Where& where) {
  BluePrintNode node = *part.node();
  node.where = where;
  for (BluePrint& child : node.children) child = placed_at(child, where);
  Replaced done;
  for (Value& value : node.outputs) value = value_at(value, where, done);
  for (Value& value : node.order) value = value_at(value, where, done);
  return wrap(std::move(node));
}

BluePrint model_in_order(std::vector<Value> inputs, std::vector<Value> outputs,
                         std::vector<Value> order) {
  const BluePrint whole = model(std::move(inputs), std::move(outputs));
  BluePrintNode node = *whole.node();
  check_values("model", order);
  node.order = std::move(order);
  return wrap(std::move(node));
}

Value input(std::string field) {
  TR_CHECK(!field.empty(), "input: the field's name is empty");
  return Value(std::make_shared<const ValueNode>(ValueNode{nullptr, 0, std::move(field)}));
}

BluePrint model(std::vector<Value> inputs, std::vector<Value> outputs) {
  TR_CHECK(!inputs.empty(), "model: no input is listed");
  TR_CHECK(!outputs.empty(), "model: no output is listed");
  check_values("model", inputs);
  check_values("model", outputs);
  for (const Value& in : inputs) {
    TR_CHECK(in.node()->application == nullptr, "model: a listed input is the result of a layer");
    TR_CHECK(std::count_if(inputs.begin(), inputs.end(),
                           [&](const Value& other) { return other.node() == in.node(); }) == 1,
             "model: input('{}') is listed twice", in.node()->field);
  }
  check_reach_inputs(outputs, inputs);
  BluePrintNode node;
  node.kind = BluePrintNode::Kind::DAG;
  node.num_inputs = int(inputs.size());
  node.num_outputs = int(outputs.size());
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return wrap(std::move(node));
}

}  // namespace tr
