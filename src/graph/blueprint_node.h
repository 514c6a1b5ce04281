// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/core/types.h"
#include "renaissance/graph/attrs.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

/// One vertex of the user's tree. Immutable after construction.
struct BluePrintNode {
  enum class Kind { LEAF, SEQ, RESIDUAL, SHARED, DAG };

  Kind kind = Kind::LEAF;
  std::string name;                 // given by named(); empty: the running number
  std::string op;                   // LEAF
  Attrs attrs;                      // LEAF
  Where where;                      // LEAF
  std::vector<BluePrint> children;  // SEQ: the row; RESIDUAL: body[, shortcut]; SHARED: the one
  std::vector<Value> inputs;        // DAG
  std::vector<Value> outputs;       // DAG
  std::vector<Value> order;  // DAG: placed first, in this order; empty: as the outputs need them
  std::shared_ptr<const char> identity;  // SHARED: survives named()
  int num_inputs = 1;
  int num_outputs = 1;
  int depth = 1;  // of blueprints inside each other, this one counted
};

/// One vertex of a user's DAG of values: an input, or output `output_index` of `producer(inputs)`.
struct ValueNode {
  struct Application {
    BluePrint producer;
    Application(BluePrint layer, std::vector<Value> values)
        : producer(std::move(layer)), held_(std::make_unique<Held>(std::move(values))) {}
    Application(const Application&) = delete;
    Application& operator=(const Application&) = delete;
    /// Frees a chain of values one by one, since it may be longer than a stack is deep, and
    /// allocates nothing.
    ~Application();
    const std::vector<Value>& inputs() const { return held_->values; }

   private:
    /// Inputs, and the next ones in the list of those that wait to be freed.
    struct Held {
      std::vector<Value> values;
      std::unique_ptr<Held> next;
      explicit Held(std::vector<Value> of) : values(std::move(of)) {}
    };
    std::unique_ptr<Held> held_;
  };
  std::shared_ptr<const Application> application;  // null for an input
  int output_index = 0;
  std::string field;  // of an input
};

/// Calls place(v) for `value` and each value that it is made of, an input before what reads it and
/// inputs in their order, unless known(node of v) then. No call lies in another one: a chain of
/// values may be longer than a stack is deep.
template <typename Known, typename Place>
void place_in_order(const Value& value, Known&& known, Place&& place) {
  struct Open {
    const Value* value;
    std::size_t next = 0;  // of its inputs
  };
  std::vector<Open> open{{&value}};
  while (!open.empty()) {
    Open& last = open.back();
    const Value& current = *last.value;
    const ValueNode::Application* const application = current.node()->application.get();
    const bool placed = known(*current.node());
    if (!placed && application != nullptr && last.next < application->inputs().size()) {
      const Value* const input = &application->inputs()[last.next++];
      open.push_back({input});
      continue;
    }
    open.pop_back();
    if (!placed) place(current);
  }
}

/// The same with `where` as the place of every layer in it: what a file describes was not written
/// in a program.
BluePrint placed_at(const BluePrint& part, const Where& where);

/// model() of one input list whose layers are placed, and so numbered and named, in the given
/// order.
BluePrint model_in_order(std::vector<Value> inputs, std::vector<Value> outputs,
                         std::vector<Value> order);

}  // namespace tr
