// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "graph/arch_plan.h"
#include "graph/compiler.h"

namespace tr {

/// In which dtype a layer computes and what dtype its output has.
struct LayerPrecision {
  DType compute = DType::FP32;  // floating inputs are cast to it, and weights are read in it
  DType output = DType::FP32;
  bool by_rule = false;
};

/// One a layer of the plan, from the definitions of the ops (OpDef::precision) and
/// options.precision: under amp LOW ops compute in the low dtype, the others in the widest floating
/// dtype that comes to them, and HIGH ones give fp32; the last rule that matches a layer's name
/// takes the place of that.
/// @throws InvalidArgument  a rule that matches no layer, or asks for the low dtype without amp or
/// of an op whose result is fp32 by definition.
std::vector<LayerPrecision> plan_precision(const ArchPlan& plan, const GraphOptions& options);

/// A field's dtype in the graph: images come in the low dtype under amp.
DType input_dtype(const ArchInput& input, const GraphOptions& options);

/// A table: layer, op, what the op is by definition, dtype of the computation and of the output.
std::string precision_text(const ArchPlan& plan, const GraphOptions& options);
/// The same as a JSON array.
std::string precision_json(const ArchPlan& plan, const GraphOptions& options);

}  // namespace tr
