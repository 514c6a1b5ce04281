// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/dispatch.h"

namespace tr::cuda {

/// Calls f(TypeTag<T>) with the storage type of FP16 or BF16.
template <typename F>
void dispatch_16_bit(DType dtype, F&& f) {
  if (dtype == DType::FP16) return f(TypeTag<__half>{});
  TR_ASSERT(dtype == DType::BF16);
  f(TypeTag<__nv_bfloat16>{});
}

}  // namespace tr::cuda
