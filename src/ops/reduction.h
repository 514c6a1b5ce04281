// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/rules.h"

namespace tr {

/// The shape of x with 1 on the axes that attribute "axes" names (all of them if it is empty).
/// Kernels use it too. @throws InvalidArgument  an axis is out of range, or named twice.
Shape reduced_shape(const Attrs& attrs, const Shape& x);

}  // namespace tr
