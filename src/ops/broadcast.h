// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "ops/rules.h"

namespace tr::ops {

/// Whether `small` becomes `large` by repeating axes of size 1 and axes missing at the front.
bool broadcasts_to(const Shape& small, const Shape& large);
/// The shape that both become so. @throws InvalidArgument  there is none.
Shape broadcast_shape(const Shape& a, const Shape& b);
/// a and b have one floating dtype; the type of what an elementwise op makes of them.
TensorType broadcast_type(const TensorType& a, const TensorType& b);

}  // namespace tr::ops
