// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

/// y = x W^T + b over the last axis of x.
///
/// @param out_features  O, length of y's last axis; x [N, ..., K] gives y [N, ..., O]
/// @param bias          whether b [O] exists
/// Parameters: weight [O, K], bias [O], fp32 masters. An image [N, H, W, C] is flattened first; in
/// files its features stand in PyTorch's order (C, H, W). Saves x, reads W again.
/// @throws InvalidArgument  out_features < 1, or x has no feature axis.
/// Agrees with torch.nn.Linear.
TR_API BluePrint fc(std::int64_t out_features, bool bias,
                    std::source_location where = std::source_location::current());

}  // namespace tr
