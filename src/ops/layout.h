// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ops/rules.h"

namespace tr {

/// Elements of a tensor in another order: place c of `shape` is element begin + sum of c[i] *
/// steps[i] of the source, counted in its memory. What permute, transpose and slice are; kernels
/// use it too.
struct StridedView {
  Shape shape;
  std::int64_t begin = 0;
  std::vector<std::int64_t> steps;  // may be negative
};

/// Of `permute` (attribute "axes") or `transpose` ("axis0", "axis1").
/// @throws InvalidArgument  the axes are no permutation of those of x.
StridedView permuted_view(const Attrs& attrs, const Shape& x);
/// Of `slice`: attributes "axes", "starts", "ends", "steps" as Python's x[start:end:step].
/// @throws InvalidArgument  the lists differ in length, an axis is out of range or named twice, a
///   step is 0.
StridedView sliced_view(const Attrs& attrs, const Shape& x);

}  // namespace tr
