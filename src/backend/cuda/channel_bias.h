// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/kernel.h"

namespace tr::cuda {

/// y[.., c] += bias[c] in place, for a floating y of `type`.
void add_channel_bias(const KernelArgs& args, const TensorType& type, void* y, const float* bias);

}  // namespace tr::cuda
