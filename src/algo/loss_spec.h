// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/compiler.h"
#include "renaissance/algo/loss.h"

namespace tr {

/// The loss as a sub-graph over the model's outputs and fields of the data: the sum of its terms.
/// Its build() throws InvalidArgument if a term reads an output that the model does not have.
LossSpec loss_spec(const Loss& loss);

}  // namespace tr
