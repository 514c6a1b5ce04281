// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

// Reductions of x over `axes` (negative ones count from the back; none means all), dtype of x,
// computed in fp32 in an order fixed by the shape. The reduced axes vanish, or stay with length 1
// if `keepdims`. Axis 0 is the batch: a model that reduces it mixes its samples.
// @throws InvalidArgument  at compile(): an axis is out of range or named twice, nothing to reduce.

/// Agrees with torch.sum. Saves nothing.
TR_API BluePrint sum(std::vector<std::int64_t> axes, bool keepdims = false,
                     std::source_location where = std::source_location::current());
/// Agrees with torch.mean. Saves nothing.
TR_API BluePrint mean(std::vector<std::int64_t> axes, bool keepdims = false,
                      std::source_location where = std::source_location::current());
/// Largest element; equal ones share the gradient. Agrees with torch.amax. Saves x and y.
TR_API BluePrint amax(std::vector<std::int64_t> axes, bool keepdims = false,
                      std::source_location where = std::source_location::current());
/// Smallest element; equal ones share the gradient. Agrees with torch.amin. Saves x and y.
TR_API BluePrint amin(std::vector<std::int64_t> axes, bool keepdims = false,
                      std::source_location where = std::source_location::current());
/// Product; exact gradients where elements are 0. Agrees with torch.prod. Saves x.
TR_API BluePrint prod(std::vector<std::int64_t> axes, bool keepdims = false,
                      std::source_location where = std::source_location::current());
/// Sum of (x - mean)^2 / (n - correction). Agrees with torch.var. Saves x.
/// @throws InvalidArgument  at compile(): correction is negative, or not less than n.
TR_API BluePrint var(std::vector<std::int64_t> axes, bool keepdims = false,
                     std::int64_t correction = 1,
                     std::source_location where = std::source_location::current());

}  // namespace tr
