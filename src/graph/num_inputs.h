// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "graph/op_def.h"

namespace tr {

/// @throws InvalidArgument  the op takes fewer or more inputs than `count`.
void check_num_inputs(const OpDef& def, std::size_t count);

}  // namespace tr
