// SPDX-License-Identifier: Apache-2.0
#pragma once

// First values of a weight as a whole, in place, serial and in a fixed order.

#include <cstdint>

#include "core/philox.h"
#include "renaissance/core/shape.h"

namespace tr {

/// Rows (the first axis) and columns (all others) of a weight.
struct MatrixSize {
  std::int64_t rows = 0, columns = 0;
};
MatrixSize matrix_size(const Shape& shape);

/// `matrix` holds N(0, 1): becomes scale * Q of its QR decomposition (of its transpose if it is
/// wide) with a positive diagonal of R. Gram-Schmidt in double, twice; 4 long short^2 operations.
/// @throws InvalidArgument  the vectors are dependent (never with independent normal numbers).
void orthogonalise(float* matrix, MatrixSize size, float scale);

/// The identity of a weight [O, K], or of each of `groups` groups of one [O, ..., C] with an odd or
/// even window between: 1 at its centre.
void fill_dirac(float* weight, const Shape& shape, std::int64_t groups);

/// Of each column the ceil(sparsity * rows) elements with the smallest draws become 0. `address.b`
/// is free.
void thin_out(float* matrix, MatrixSize size, float sparsity, DrawAddress address);

}  // namespace tr
