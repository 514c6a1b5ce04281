// SPDX-License-Identifier: Apache-2.0
#pragma once

// Floating operands of any dtype that are broadcast to a large shape, read element by element.

#include "backend/cuda/axes.h"
#include "backend/cuda/map.cuh"

namespace tr::cuda {

/// Element i of a floating tensor.
__device__ inline float get(const void* from, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::FP16: return to_float(static_cast<const __half*>(from)[i]);
    case DType::BF16: return to_float(static_cast<const __nv_bfloat16*>(from)[i]);
    default: return static_cast<const float*>(from)[i];
  }
}
__device__ inline void put(void* to, DType dtype, std::int64_t i, float value) {
  switch (dtype) {
    case DType::FP16: static_cast<__half*>(to)[i] = from_float<__half>(value); break;
    case DType::BF16: static_cast<__nv_bfloat16*>(to)[i] = from_float<__nv_bfloat16>(value); break;
    default: static_cast<float*>(to)[i] = value;
  }
}

/// Which element of a small tensor belongs to element i of the large one.
template <typename Offset>
struct Place {
  Axes<Offset> axes;
  bool whole = true;  // the small one is the large one

  Place() = default;
  Place(const Shape& large, const Shape& small)
      : axes(Broadcast<Offset>(large, small).large),
        whole(large.num_elements() == small.num_elements()) {}
  __device__ std::int64_t operator()(std::int64_t i) const {
    return whole ? i : std::int64_t(axes.offset(Offset(i)));
  }
};

/// A floating tensor that is broadcast to a large shape.
template <typename Offset>
struct Operand {
  const void* data = nullptr;
  DType dtype = DType::FP32;
  Place<Offset> place;

  Operand(const KernelArgs& args, int i, const Shape& large)
      : data(args.in<void>(i)), dtype(args.in_type(i).dtype), place(large, args.in_type(i).shape) {}
  __device__ float operator()(std::int64_t i) const { return get(data, dtype, place(i)); }
};

/// Sums `count` = large.num_elements() floats to the type `out`; `workspace` has
/// sum_floats_workspace() bytes. In src/backend/cuda/reduce_to.cu.
void sum_floats_to(const KernelArgs& args, const float* values, const Shape& large,
                   const TensorType& out_type, void* out, std::byte* workspace);
std::int64_t sum_floats_workspace(const Shape& large, const Shape& out);

}  // namespace tr::cuda
