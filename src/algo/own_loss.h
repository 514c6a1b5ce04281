// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "graph/compiler.h"
#include "renaissance/algo/loss.h"

namespace tr {

/// @throws InvalidArgument  the name or the expression of an OWN term is not as OwnLoss says.
void validate_own_loss(const LossTerm& term);

/// Fields of the data that the expression of an OWN term reads, each once.
std::vector<std::string> own_loss_fields(const LossTerm& term);

/// Hash of the expression's ops, their attributes and how they hang together, as 16 hex digits.
std::string own_loss_digest(const LossTerm& term);

/// Adds the nodes of an OWN term; returns the fp32 sum of the samples' losses: of the expression's
/// numbers, or of its one number as often as the batch has samples.
/// @throws InvalidArgument  as OwnLoss says.
TensorId add_own_loss(GraphBuilder& builder, const LossTerm& term, const LossOperands& operands);

}  // namespace tr
