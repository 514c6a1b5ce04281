// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/compiler.h"
#include "renaissance/algo/loss.h"

namespace tr {

/// The loss as a sub-graph over the model's outputs and fields of the data: the sum of its terms.
/// Its build() throws InvalidArgument if a term reads an output that the model does not have.
/// `first` is the number of its first term, of which constants are named.
LossSpec loss_spec(const Loss& loss, int first = 0);

/// Fields of the data that a term reads.
std::vector<std::string> fields_of(const LossTerm& term);

/// Name of the tensor that holds a constant of the loss's term `term`: "loss.0.class_weights".
std::string loss_constant_name(int term, std::string_view what);

}  // namespace tr
