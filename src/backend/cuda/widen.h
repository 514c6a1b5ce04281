// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/kernel.h"

namespace tr::cuda {

/// to[i] = from[i] for `count` elements of a floating dtype.
void widen(const KernelArgs& args, DType dtype, const void* from, float* to, std::int64_t count);

}  // namespace tr::cuda
