// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the definitions of all optimizers share: inputs, clipping, cost.

#include <vector>

#include "graph/op_def.h"
#include "ops/step_rules.h"

namespace tr::ops {

/// Places behind the inputs that check_update_inputs() knows. Moments follow, then weight_cast.
enum OptimizerInput : std::size_t { kFoundInf = kNumUpdateInputs, kGradSumsq, kFirstMoment };

/// Everything but the moments. `num_moments` is the number of their places, given or not.
void check_optimizer_inputs(const Attrs& attrs, Types in, std::size_t num_moments);

/// The attribute `matrices`: one behind the other within the ranges.
void check_matrices(const Attrs& attrs, Types in);

/// `flops` an element of the weights; every range is read, those of `written` are written and those
/// of `read_again` read a second time.
CostRule range_cost(int flops, std::vector<std::size_t> written,
                    std::vector<std::size_t> read_again = {});

/// An optimizer over whole ranges that keeps up to `num_moments` moments. weight_cast is optional;
/// attributes and the shape rule are the caller's.
OpDef optimizer_def(const char* name, int num_moments, int flops,
                    std::vector<std::size_t> read_again = {});

}  // namespace tr::ops
