// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/core/types.h"
#include "renaissance/graph/attrs.h"

namespace tr {

struct BluePrintNode;  // internal: src/graph/blueprint_node.h
struct ValueNode;

/// A symbolic tensor: an input of a model, or an output of a BluePrint applied to other values.
/// Chains of them may have any length.
class TR_API Value {
 public:
  explicit Value(std::shared_ptr<const ValueNode> node) : node_(std::move(node)) {}
  const std::shared_ptr<const ValueNode>& node() const { return node_; }

 private:
  std::shared_ptr<const ValueNode> node_;
};

/// What a user writes: an immutable description of a model or of a part of one, cheap to copy and to
/// share. Each place where it is used becomes a new instance with parameters of its own, unless it came
/// from shared(). At most 1000 lie inside each other; what makes one that is deeper, or takes one that
/// was moved from, throws InvalidArgument.
class TR_API BluePrint {
 public:
  explicit BluePrint(std::shared_ptr<const BluePrintNode> node) : node_(std::move(node)) {}

  /// Applies it to symbolic values: `auto y = conv(64, 3)(x)`. For a BluePrint with one output.
  /// @throws InvalidArgument  another number of inputs is expected, or it has several outputs.
  template <typename... Values>
  Value operator()(const Value& first, const Values&... rest) const {
    return apply_one({first, rest...});
  }
  /// The general form: several inputs, several outputs.
  std::vector<Value> apply(const std::vector<Value>& inputs) const;
  Value apply_one(const std::vector<Value>& inputs) const;

  /// The same with a name for its place, used instead of the running number in parameter names:
  /// seq(a, b).named("features") inside a seq gives "features.0.weight".
  BluePrint named(std::string name) const;

  int num_inputs() const;
  int num_outputs() const;
  const std::shared_ptr<const BluePrintNode>& node() const { return node_; }

 private:
  std::shared_ptr<const BluePrintNode> node_;
};

/// One application of the registered op `op`, its parameters created where it is placed. The layer
/// functions (fc, relu, conv ...) are thin wrappers of this; users reach their own ops through it.
/// @throws InvalidArgument  the op or one of the attributes is unknown, or has another type.
TR_API BluePrint layer(const std::string& op, Attrs attrs, int num_inputs = 1,
                       std::source_location where = std::source_location::current());

/// Children in a row; child i is named "i" unless it has a name.
/// @throws InvalidArgument  the list is empty, or a child has not one input and one output.
TR_API BluePrint seq(std::vector<BluePrint> children);

template <typename... Rest>
BluePrint seq(const BluePrint& first, const Rest&... rest) {
  return seq(std::vector<BluePrint>{first, BluePrint(rest)...});
}

/// body(x) + shortcut(x); the names are "body" and "shortcut".
TR_API BluePrint residual(const BluePrint& body, const BluePrint& shortcut);
/// body(x) + x
TR_API BluePrint residual(const BluePrint& body);

/// `times` instances of `layer` in a row, each with parameters of its own. @throws InvalidArgument times < 1.
TR_API BluePrint repeat(const BluePrint& layer, int times);

/// Marks `layer` as one instance: all places of the returned BluePrint use the same parameters, whose
/// gradients are summed. The first place gives the name.
TR_API BluePrint shared(const BluePrint& layer);

/// A symbolic input bound to the data set's field of that name.
TR_API Value input(std::string field = "image");

/// A BluePrint of any DAG between `inputs` and `outputs`.
/// @throws InvalidArgument  an output depends on an input that is not listed, or a list is empty.
TR_API BluePrint model(std::vector<Value> inputs, std::vector<Value> outputs);
inline BluePrint model(const Value& input, const Value& output) {
  return model(std::vector<Value>{input}, std::vector<Value>{output});
}

}  // namespace tr
