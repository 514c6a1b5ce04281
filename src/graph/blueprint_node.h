// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "renaissance/core/types.h"
#include "renaissance/graph/attrs.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

/// One vertex of the user's tree. Immutable after construction.
struct BluePrintNode {
  enum class Kind { LEAF, SEQ, RESIDUAL, SHARED, DAG };

  Kind kind = Kind::LEAF;
  std::string name;                   // given by named(); empty: the running number
  std::string op;                     // LEAF
  Attrs attrs;                        // LEAF
  Where where;                        // LEAF
  std::vector<BluePrint> children;    // SEQ: the row; RESIDUAL: body[, shortcut]; SHARED: the one
  std::vector<Value> inputs;          // DAG
  std::vector<Value> outputs;         // DAG
  std::vector<Value> order;           // DAG: placed first, in this order; empty: as the outputs need them
  std::shared_ptr<const char> identity;  // SHARED: survives named()
  int num_inputs = 1;
  int num_outputs = 1;
};

/// One vertex of a user's DAG of values: an input, or output `output_index` of `producer(inputs)`.
struct ValueNode {
  struct Application {
    BluePrint producer;
    std::vector<Value> inputs;
  };
  std::shared_ptr<const Application> application;  // null for an input
  int output_index = 0;
  std::string field;                               // of an input
};

/// The same with `where` as the place of every layer in it: what a file describes was not written in
/// a program.
BluePrint placed_at(const BluePrint& part, const Where& where);

/// model() of one input list whose layers are placed, and so numbered and named, in the given order.
BluePrint model_in_order(std::vector<Value> inputs, std::vector<Value> outputs,
                         std::vector<Value> order);

}  // namespace tr
