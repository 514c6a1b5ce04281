// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

/// [N, ...] -> [N, product of the rest], a view. In files the features stand in PyTorch's order
/// (C, H, W): loading and saving permute the weights of the fc that follows.
/// Agrees with torch.nn.Flatten.
TR_API BluePrint flatten(std::source_location where = std::source_location::current());

/// Joins `num_inputs` tensors along `axis`, which counts as in memory ([N, H, W, C]: -1 is the
/// channels), not as in PyTorch.
/// @throws InvalidArgument  num_inputs < 1; at compile(): the other axes differ, or the axis is out
///   of range or the batch.
TR_API BluePrint concat(int axis = -1, int num_inputs = 2,
                        std::source_location where = std::source_location::current());
/// concat({a, b}): the function on values.
TR_API Value concat(const std::vector<Value>& values, int axis = -1,
                    std::source_location where = std::source_location::current());

/// Appends zero channels until C is a multiple of `multiple`. The gradient drops them.
/// @throws InvalidArgument  multiple < 1.
TR_API BluePrint channel_padding(std::int64_t multiple = 8,
                                 std::source_location where = std::source_location::current());

}  // namespace tr
