// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"
#include "renaissance/ops/conv.h"

namespace tr {

struct PoolOptions {
  bool ceil_mode =
      false;  // round the output size up; a window must start inside the image or its left padding
  bool count_include_pad =
      true;  // avgpool: the divisor counts padded cells (the articles' did not)
};

/// Maximum of each window; padding never wins. Saves the place of the maximum in the window, one
/// byte an element (the first one on ties; a NaN wins).
/// @throws InvalidArgument  at compile(): a window of more than 256 cells, padding above half the
///   kernel, or a kernel beyond the padded image.
/// Agrees with torch.nn.MaxPool2d.
TR_API BluePrint maxpool(Size2d kernel, Size2d stride, Size2d padding, PoolOptions options = {},
                         std::source_location where = std::source_location::current());
/// stride = kernel, no padding.
TR_API BluePrint maxpool(Size2d kernel,
                         std::source_location where = std::source_location::current());

/// Mean of each window. Saves nothing. Errors as maxpool. Agrees with torch.nn.AvgPool2d.
TR_API BluePrint avgpool(Size2d kernel, Size2d stride, Size2d padding, PoolOptions options = {},
                         std::source_location where = std::source_location::current());
/// stride = kernel, no padding.
TR_API BluePrint avgpool(Size2d kernel,
                         std::source_location where = std::source_location::current());

/// Means over windows that divide the image as evenly as they can, whatever its size: window p of P
/// along the height H holds the cells floor(p H / P) to ceil((p + 1) H / P) - 1, so they overlap
/// where P does not divide H and repeat cells where P exceeds H. [N, H, W, C] -> [N, size, C],
/// summed in fp32. Saves nothing. @throws InvalidArgument  at compile(): size < 1.
/// Agrees with torch.nn.AdaptiveAvgPool2d.
TR_API BluePrint adaptive_avgpool(Size2d size,
                                  std::source_location where = std::source_location::current());

/// Global average: [N, H, W, C] -> [N, 1, 1, C], summed in fp32. Saves nothing.
/// Agrees with torch.nn.AdaptiveAvgPool2d(1).
TR_API BluePrint gap(std::source_location where = std::source_location::current());

}  // namespace tr
