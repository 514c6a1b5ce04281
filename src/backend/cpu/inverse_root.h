// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/matrix_update.h"

namespace tr::cpu {

/// Inverse fourth roots of symmetric matrices [side, side] by a coupled Newton iteration, all of it
/// products in fp32:
///
///   A = L + ridge |L| I;  z = 5 / (2 |A|);  X = z^(1/4) I;  M = z A
///   T = 5/4 I - 1/4 M;  X = X T;  M = T^4 M      until M is I, nearly
///
/// Eigenvalues of M are at most 2.5 in the beginning and 1 after a step; the least, ridge / 2 or
/// so, grows 2.4 times a step. Source: Higham 2008, Functions of Matrices, (7.18).
class InverseFourthRoot {
 public:
  static void add_products(Products& products, std::int64_t side) {
    products.add({side, side, side, false, false});
  }
  /// Room that run() takes.
  static std::int64_t num_floats(std::int64_t side) { return 4 * side * side; }

  /// `root` of `matrix`; the identity for a matrix of zeros. `partial` as in square_sum().
  static void run(const KernelArgs& args, const Products& products, const float* matrix,
                  std::int64_t side, float ridge, float* root, float* room, double* partial);
};

}  // namespace tr::cpu
