// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/most_elements.h"
#include "graph/op_def.h"
#include "renaissance/core/types.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

/// A parameter or buffer of a model.
struct Param {
  std::string name;  // "features.0.weight", as PyTorch's state_dict has it
  ParamSpec spec;
  int layer = -1;  // first layer that uses it
};

/// One op of the flat model. Values are numbered: inputs first, then each layer's outputs in order.
struct ArchLayer {
  std::string name;  // "features.3"; an implied layer has its consumer's name + ".flatten"
  std::string op;
  Attrs attrs;
  std::vector<int> inputs;        // value numbers
  std::vector<int> outputs;       // value numbers
  std::vector<int> params;        // indices into ArchPlan::params, in the op's order
  std::vector<TensorType> types;  // of the outputs, for the probe batch
  std::int64_t num_params = 0;    // elements, trainable ones, counted at the first use
  Cost cost;                      // forward, for one sample
  Where where;
};

/// A model's input: the field that feeds it, its type for one sample.
struct ArchInput {
  std::string field;
  TensorType sample_type;  // without the batch axis
};

/// The most samples of which every input and every layer's output still is a Shape.
struct BatchLimit {
  std::int64_t samples = kMostElements;
  std::string reason;  // "\"features.0\" makes [224, 224, 64] of each"
};

/// The flat, named, printable form of a BluePrint for given sample shapes.
struct ArchPlan {
  std::vector<ArchInput> inputs;  // value numbers 0 .. inputs.size()-1
  std::vector<ArchLayer> layers;
  std::vector<int> outputs;  // value numbers
  std::vector<Param> params;

  std::int64_t num_params() const;                   // trainable elements
  std::int64_t flops() const;                        // forward, one sample
  TensorType output_type(std::size_t output) const;  // of one sample
  BatchLimit largest_batch() const;
  std::string text() const;
  std::string json() const;
};

struct ExpandOptions {
  std::int64_t batch = 2;  // samples for which shapes are derived; batch norm refuses 1
  std::string prefix;      // of all layers' names
};

/// Expands `model`: names, implied flatten before fc on an image, parameters, shapes.
/// `fields` gives the type of one sample of each field that the data offers; a seq or any BluePrint
/// whose input is unnamed takes "image".
/// @throws InvalidArgument  a shape rule is broken (layer and place named), or a field is missing.
ArchPlan expand(const BluePrint& model, const std::map<std::string, TensorType>& fields,
                const ExpandOptions& options = {});

}  // namespace tr
