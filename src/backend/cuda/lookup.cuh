// SPDX-License-Identifier: Apache-2.0
#pragma once

// What lookups and their gradients share.

#include "backend/cuda/broadcast.cuh"

namespace tr::cuda {

/// Class numbers, ids: int32 or int64.
struct Numbers {
  const void* data;
  bool wide;

  Numbers(const KernelArgs& args, int i)
      : data(args.in<void>(i)), wide(args.in_type(i).dtype == DType::INT64) {}
  __device__ std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i]
                : std::int64_t(static_cast<const std::int32_t*>(data)[i]);
  }
};

/// x [outer, length, inner] at index [outer, count, inner].
struct GatherShape {
  std::int64_t outer = 1, length = 1, count = 1, inner = 1;

  GatherShape(const Attrs& attrs, const Shape& x, const Shape& index) {
    const std::int64_t given = attrs.i64("axis");
    const int axis = int(given < 0 ? given + x.rank() : given);
    for (int i = 0; i < x.rank(); ++i) {
      if (i != axis) (i < axis ? outer : inner) *= x[i];
    }
    length = x[axis];
    count = index[axis];
  }
};

}  // namespace tr::cuda
