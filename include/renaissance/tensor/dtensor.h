// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "renaissance/core/shape.h"

namespace tr {

/// Descriptor of a tensor inside an arena; owns nothing.
struct DTensor {
  std::int32_t id = -1;       // of the graph or task that made it
  std::string name;
  TensorType type;
  std::int64_t offset = -1;   // bytes from the arena's start; -1 until memory is planned
};

}  // namespace tr
