// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renaissance.h"
#include "renaissance/backend/user_kernel.h"
#include "renaissance/graph/user_op.h"

void register_soft_cap();
void register_soft_cap_cuda();

/// y = cap * tanh(x / cap), element by element. Saves y.
tr::BluePrint soft_cap(double cap, std::source_location where = std::source_location::current());
