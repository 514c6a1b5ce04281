// SPDX-License-Identifier: Apache-2.0
#pragma once

// From a dtype to a kernel's template argument, and refusals by dtype.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <span>
#include <string>

#include "backend/kernel.h"
#include "core/assert.h"

namespace tr::cuda {

template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls f(TypeTag<T>) with the storage type of a floating dtype.
template <typename F>
void dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::FP32: return f(TypeTag<float>{});
    case DType::FP16: return f(TypeTag<__half>{});
    case DType::BF16: return f(TypeTag<__nv_bfloat16>{});
    default: TR_ASSERT(!"a floating dtype");
  }
}

/// Calls f(TypeTag<T>) with the type of class numbers.
template <typename F>
void dispatch_index(DType dtype, F&& f) {
  switch (dtype) {
    case DType::INT32: return f(TypeTag<std::int32_t>{});
    case DType::INT64: return f(TypeTag<std::int64_t>{});
    default: TR_ASSERT(!"an index dtype");
  }
}

/// "input 1 is int32, expected a floating dtype"
inline std::string not_floating(const char* what, std::size_t index, DType dtype) {
  return std::string(what) + " " + std::to_string(index) + " is " + std::string(name_of(dtype)) +
         ", expected a floating dtype";
}

/// Reason why a kernel of floating inputs cannot run: the first input or output that is not
/// floating.
inline std::string refuse_unless_floating(const KernelQuery& query) {
  for (std::size_t i = 0; i < query.in.size(); ++i) {
    if (!is_floating(query.in[i].dtype)) return not_floating("input", i, query.in[i].dtype);
  }
  for (std::size_t i = 0; i < query.out.size(); ++i) {
    if (!is_floating(query.out[i].dtype)) return not_floating("output", i, query.out[i].dtype);
  }
  return "";
}

}  // namespace tr::cuda
