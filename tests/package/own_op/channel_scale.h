// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renaissance.h"
#include "renaissance/backend/user_kernel.h"
#include "renaissance/graph/user_op.h"

void register_channel_scale();
void register_channel_scale_cuda();

/// y = x * scale[c] over the last axis; the parameter scale [C] begins at 1. fp32.
tr::BluePrint channel_scale(std::source_location where = std::source_location::current());
