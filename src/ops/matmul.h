// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ops/rules.h"

namespace tr {

/// All sizes of one `matmul`, from its attributes and the shapes of a and b. Kernels use it too.
struct MatmulGeometry {
  Shape y;
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;

  /// Axes of the batch, neighbours merged, the last one fastest: matrices of a and b from one
  /// product to the next along the axis, 0 where they are repeated.
  struct Axis {
    std::int64_t count, a_step, b_step;
  };
  std::vector<Axis> batch;

  std::int64_t num_products() const;
  /// Matrices of a and b that product `index` takes.
  std::pair<std::int64_t, std::int64_t> operands(std::int64_t index) const;
};

/// @throws InvalidArgument  a or b has less than two axes, the inner ones differ, the others do not
///   broadcast.
MatmulGeometry matmul_geometry(const Attrs& attrs, const Shape& a, const Shape& b);

}  // namespace tr
