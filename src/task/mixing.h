// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/compiler.h"
#include "renaissance/algo/loss.h"
#include "renaissance/data/transforms.h"

namespace tr {

/// Makes a training whose chain holds Mixup or CutMix read mixed labels: adds the field
/// "soft_label", one probability for each output, to `fields`, and tells `spec` to read it instead
/// of "label" while it trains. Returns the field's width, 0 if the chain mixes nothing.
/// @throws InvalidArgument  the loss has targets that are not mixed, or the set has no class
/// numbers.
int mix_labels(const TransformChain& chain, const Loss& loss, const ArchPlan& arch,
               std::map<std::string, TensorType>& fields, LossSpec& spec);

}  // namespace tr
