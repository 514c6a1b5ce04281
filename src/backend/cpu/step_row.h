// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/kernel.h"
#include "graph/step_tables.h"

namespace tr::cpu {

/// Row of a step table or of results that the running micro-step uses. `table` and `counters` are
/// inputs.
template <typename T>
const T* step_row(const KernelArgs& args, int table, int counters) {
  const Shape& shape = args.in_type(table).shape;
  const std::int64_t row = args.in<std::int64_t>(counters)[kCounterRow] % shape[0];
  return args.in<T>(table) + row * shape[1];
}

}  // namespace tr::cpu
