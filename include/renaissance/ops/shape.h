// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
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

/// The elements of each sample in another shape, a view; -1 stands once for what is left.
/// [N, ...] -> [N, sample_shape]. Agrees with torch.reshape.
/// @throws InvalidArgument  at compile(): another number of elements.
TR_API BluePrint reshape(std::vector<std::int64_t> sample_shape,
                         std::source_location where = std::source_location::current());

/// Axis i of y is axis axes[i] of x, the batch included: permute({0, 2, 1, 3}). A copy. Agrees with
/// torch.permute. @throws InvalidArgument  at compile(): axes are no permutation.
TR_API BluePrint permute(std::vector<std::int64_t> axes,
                         std::source_location where = std::source_location::current());

/// Two axes change places; negative ones count from the back. A copy. Agrees with torch.transpose.
TR_API BluePrint transpose(int axis0, int axis1,
                           std::source_location where = std::source_location::current());

/// x[start:end:step] along one axis as in Python: negative places count from the back, places
/// outside are cut. A copy; the gradient is 0 elsewhere. @throws InvalidArgument  step is 0.
TR_API BluePrint slice(int axis, std::int64_t start,
                       std::int64_t end = std::numeric_limits<std::int64_t>::max(),
                       std::int64_t step = 1,
                       std::source_location where = std::source_location::current());

/// Slices of the given lengths along `axis`, one after the other. Agrees with torch.split.
TR_API std::vector<Value> split(const Value& x, const std::vector<std::int64_t>& lengths,
                                int axis = -1,
                                std::source_location where = std::source_location::current());

}  // namespace tr
