// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a small tensor repeats inside a large one: shapes for kernels.

#include <cstdint>

#include "core/host_device.h"
#include "renaissance/core/shape.h"

namespace tr::cuda {

/// Axes with a step each; an index runs over them in memory order, the last one fastest.
template <typename Offset>
struct Axes {
  int rank = 0;
  Offset dims[Shape::kMaxRank] = {};
  Offset steps[Shape::kMaxRank] = {};

  /// Sum of coordinate times step.
  TR_HOST_DEVICE Offset offset(Offset index) const {
    Offset sum = 0;
    for (int axis = rank - 1; axis > 0; --axis) {
      const Offset rest = index / dims[axis];
      sum += (index - rest * dims[axis]) * steps[axis];
      index = rest;
    }
    return rank == 0 ? 0 : sum + index * steps[0];
  }
  Offset count() const {
    Offset product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= dims[axis];
    return product;
  }
  void push(Offset dim, Offset step) {
    dims[rank] = dim;
    steps[rank++] = step;
  }
};

/// A large shape cut into the axes that a small one, aligned at the back, has and those along which
/// it repeats. Neighbours of one kind are one axis.
template <typename Offset>
struct Broadcast {
  Axes<Offset> large;     // all axes; steps of the small tensor, 0 where it repeats
  Axes<Offset> kept;      // steps of the large tensor
  Axes<Offset> repeated;  // steps of the large tensor

  Broadcast(const Shape& big, const Shape& small) {
    const int missing = big.rank() - small.rank();
    Axes<Offset> backwards;  // last axis first; dims of one kind merged
    Offset small_step = 1;
    for (int axis = big.rank() - 1; axis >= 0; --axis) {
      const auto dim = Offset(big[axis]);
      const Offset own = axis >= missing ? Offset(small[axis - missing]) : Offset(1);
      if (dim == 1) continue;
      const Offset step = own == 1 ? 0 : small_step;
      small_step *= own;
      const int last = backwards.rank - 1;
      if (last >= 0 && (backwards.steps[last] == 0) == (step == 0)) {
        backwards.dims[last] *= dim;
      } else {
        backwards.push(dim, step);
      }
    }
    Offset steps[Shape::kMaxRank], big_step = 1;
    for (int i = 0; i < backwards.rank; ++i) {
      steps[i] = big_step;
      big_step *= backwards.dims[i];
    }
    for (int i = backwards.rank - 1; i >= 0; --i) {
      large.push(backwards.dims[i], backwards.steps[i]);
      (backwards.steps[i] == 0 ? repeated : kept).push(backwards.dims[i], steps[i]);
    }
  }
  /// Whether neighbours in the large tensor fall on one element of the small one.
  bool repeats_last() const { return large.rank > 0 && large.steps[large.rank - 1] == 0; }
};

}  // namespace tr::cuda
