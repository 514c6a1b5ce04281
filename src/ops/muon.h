// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "renaissance/graph/attrs.h"

namespace tr::ops {

/// A weight that an optimizer treats as a matrix, dense from an element of the ranges on.
struct Matrix {
  std::int64_t begin = 0, rows = 0, columns = 0;
  std::int64_t elements() const { return rows * columns; }
  std::int64_t end() const { return begin + elements(); }
};

/// Attribute `matrices` of muon, shampoo and soap.
std::vector<Matrix> matrices_of(const Attrs& attrs);

}  // namespace tr::ops
